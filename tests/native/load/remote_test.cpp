#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "load/run.hpp"
#include "load_remote/remote_backend.hpp"
#include "load_remote/server.hpp"
#include "scripted_http.hpp"

namespace penstock::load_remote {
namespace {

using Answer = ScriptedHttp::Answer;

std::string reply(const std::string& status, const std::string& body = "", const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
T taken(Result<T> result) {
  EXPECT_TRUE(result.ok());
  return std::move(*result);
}

std::unique_ptr<Server> dav(const ScriptedHttp& http) {
  return taken(make_dav_server("http://" + http.host() + "/data/"));
}

TEST(Remote, AUrlThatNoProtocolReadsIsRefused) {
  for (const char* url : {"ftp://h/x", "root", "", "root://", "nfs://", "nfs://h", "http://h", "hdfs://", "hdfs:///x",
                          "s3://", "s3s://h", "http://h/x#y", "http://h/x?y", "root://h//x?authz=t", "nfs://h/x#y"}) {
    load::LoadPlan plan;
    plan.backend = load::RemotePlan{url, load::Sync::end};
    const auto made = make_remote_backend(plan);
    ASSERT_FALSE(made.ok()) << url;
    EXPECT_EQ(made.error().code(), Errc::invalid_argument) << url;
  }
}

TEST(RemoteDav, AFileOfKnownSizeIsOneUploadInPieces) {
  ScriptedHttp http({{reply("201 Created")}});
  const auto server = dav(http);
  const auto file = taken(server->create("a", {6, 3}));
  ASSERT_TRUE(file->write(bytes_of("abc"), 0).ok());
  ASSERT_TRUE(file->write(bytes_of("def"), 3).ok());
  ASSERT_TRUE(file->close().ok());
  const auto request = http.requests().at(0);
  EXPECT_EQ(request.substr(0, 16), "PUT /data/a HTTP");
  EXPECT_NE(request.find("Content-Length: 6"), std::string::npos);
  EXPECT_EQ(request.substr(request.size() - 6), "abcdef");
}

TEST(RemoteDav, AFileOfUnknownSizeIsSentInChunks) {
  ScriptedHttp http({{reply("201 Created")}});
  const auto server = dav(http);
  const auto file = taken(server->create("a", {0, 3}));
  ASSERT_TRUE(file->write(bytes_of("abc"), 0).ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_NE(http.requests().at(0).find("\r\n3\r\nabc\r\n0\r\n"), std::string::npos);
}

TEST(RemoteDav, AWriteOutOfOrderIsRefused) {
  ScriptedHttp http({{reply("201 Created")}});
  const auto server = dav(http);
  const auto file = taken(server->create("a", {0, 3}));
  EXPECT_EQ(file->write(bytes_of("abc"), 3).error().code(), Errc::unsupported);
}

TEST(RemoteDav, AnUploadThatEndsEarlyIsNotKept) {
  ScriptedHttp http({});
  const auto server = dav(http);
  const auto file = taken(server->create("a", {6, 3}));
  EXPECT_EQ(file->close().error().code(), Errc::cancelled);
}

std::string listing(int files) {
  std::string text = "<D:multistatus xmlns:D='DAV:'><D:response><D:href>/data/</D:href></D:response>";
  for (int i = 0; i < files; ++i) text += "<D:response><D:href>/data/x</D:href></D:response>";
  return reply("207 Multi-Status", text + "</D:multistatus>");
}

TEST(RemoteDav, ADirectoryWithFilesOfTheUsersIsNotRemoved) {
  for (const auto& answer : {listing(1), reply("207 Multi-Status", "garbage"), reply("405 Method Not Allowed")}) {
    ScriptedHttp http({{answer}, {reply("204 No Content")}});
    EXPECT_FALSE(dav(http)->remove_folder("").ok());
    EXPECT_EQ(http.requests().size(), 1U);
  }
}

TEST(RemoteDav, AnEmptyDirectoryIsRemoved) {
  ScriptedHttp http({{listing(0)}, {reply("204 No Content")}});
  ASSERT_TRUE(dav(http)->remove_folder("").ok());
  EXPECT_EQ(http.requests().at(1).substr(0, 14), "DELETE /data/ ");
}

load::LoadPlan removal_of(const ScriptedHttp& http) {
  load::LoadPlan plan;
  plan.backend = load::RemotePlan{"http://" + http.host() + "/data", load::Sync::end};
  return plan;
}

load::Outcome outcome_of(const load::LoadPlan& plan, bool stop = false) {
  const std::atomic<bool> stopped{stop};
  const auto make = [](const load::LoadPlan& of, const load::RunContext&) { return make_remote_backend(of); };
  const auto ignore = [](std::string_view, const Json&) {};
  return taken(load::run_load(plan, {posix_env(), ignore, stopped, load::no_team(), make}));
}

TEST(RemoteRemoval, NamesThatAreGoneAreNoProblem) {
  ScriptedHttp http({{reply("404 Not Found")}, {reply("204 No Content")}, {listing(0)}, {reply("204 No Content")}});
  auto plan = removal_of(http);
  plan.workload = load::RemovePlan{2, "bin", {}, true};
  EXPECT_TRUE(outcome_of(plan).document["problem"].is_null());
  EXPECT_EQ(http.requests().at(1).substr(0, 31), "DELETE /data/load-000000001.bin");
}

TEST(RemoteRemoval, AServerThatDoesNotAnswerIsNotWaitedForLong) {
  ScriptedHttp http({});
  auto plan = removal_of(http);
  plan.drain_timeout_s = 0.3;
  plan.workload = load::RemovePlan{1, "bin", {}, true};
  const auto outcome = outcome_of(plan);
  EXPECT_EQ(outcome.document["problem"], "the server did not answer for 0.3 s");
  EXPECT_TRUE(outcome.left_behind);
  EXPECT_EQ(outcome_of(plan, true).document["problem"], "it was interrupted");
}

TEST(RemoteRemoval, OfATreeOnlyNamesOfTheRunAreRemoved) {
  std::vector<Answer> answers(9, Answer{reply("204 No Content"), false});
  ScriptedHttp http(answers);
  auto plan = removal_of(http);
  plan.workload = load::RemovePlan{0, "bin", load::TreesPlan{1, 0, 1, 1, 1, true}, false};
  EXPECT_TRUE(outcome_of(plan).document["problem"].is_null());
  std::vector<std::string> removed;
  for (const auto& request : http.requests()) removed.push_back(request.substr(0, request.find(" HTTP")));
  EXPECT_EQ(removed, (std::vector<std::string>{
                         "HEAD /data/load-000000000", "DELETE /data/load-000000000/f000-000000000",
                         "DELETE /data/load-000000000/g000-000000000", "DELETE /data/load-000000000/d000-000000000/",
                         "DELETE /data/load-000000000/e000-000000000/", "DELETE /data/load-000000000/"}));
}

TEST(RemoteRemoval, ATreeThatIsGoneTakesOneRequest) {
  ScriptedHttp http({{reply("404 Not Found")}, {reply("500 Unexpected")}});
  auto plan = removal_of(http);
  plan.workload = load::RemovePlan{0, "bin", load::TreesPlan{1, 0, 1, 1, 1000, true}, false};
  EXPECT_TRUE(outcome_of(plan).document["problem"].is_null());
}

TEST(RemoteDav, WhatTheServerSaysIsToldWithItsKind) {
  const std::vector<std::pair<std::string, Errc>> said = {{"403 Forbidden", Errc::permission},
                                                          {"404 Not Found", Errc::not_found},
                                                          {"412 Precondition", Errc::already_exists},
                                                          {"507 Insufficient Storage", Errc::no_space},
                                                          {"500 Oops", Errc::io},
                                                          {"302 Found", Errc::io}};
  for (const auto& [status, code] : said) {
    ScriptedHttp http({{reply(status, "why\x01 not")}});
    const auto done = dav(http)->remove("a");
    ASSERT_FALSE(done.ok()) << status;
    EXPECT_EQ(done.error().code(), code) << status;
    EXPECT_NE(done.error().message().find("why  not"), std::string::npos) << done.error().message();
  }
}

TEST(RemoteDav, ReadsAskForRangesAndTakeNoMore) {
  ScriptedHttp http({{reply("206 Partial Content", "abc")},
                     {reply("416 Range Not Satisfiable")},
                     {reply("200 OK", "far too many bytes for this read"), true}});
  const auto server = dav(http);
  const auto file = taken(server->open("a"));
  std::vector<std::byte> into(3);
  EXPECT_EQ(*file->read(into, 7), 3U);
  EXPECT_EQ(text_of(into), "abc");
  EXPECT_EQ(*file->read(into, 99), 0U);
  EXPECT_FALSE(file->read(into, 0).ok());
  EXPECT_NE(http.requests().at(0).find("Range: bytes=7-9"), std::string::npos);
}

TEST(RemoteDav, AServerThatIgnoresRangesIsFound) {
  ScriptedHttp http({{reply("200 OK", "abc")}, {reply("200 OK", "abc")}, {reply("200 OK", "abcd"), true}});
  const auto server = dav(http);
  const auto file = taken(server->open("a"));
  std::vector<std::byte> into(3);
  EXPECT_EQ(*file->read(into, 0), 3U);
  const auto shifted = file->read(into, 3);
  ASSERT_FALSE(shifted.ok());
  EXPECT_NE(shifted.error().message().find("from their beginning only"), std::string::npos);
  const auto longer = file->read(into, 0);
  ASSERT_FALSE(longer.ok());
  EXPECT_NE(longer.error().message().find("more than the 3 bytes"), std::string::npos) << longer.error().message();
}

TEST(RemoteDav, TheTextOfAPageIsShownWithoutItsTags) {
  ScriptedHttp http({{reply("409 Conflict", "<!DOCTYPE HTML>\n<html><h1>Conflict</h1>\n<p>Cannot PUT</p></html>")}});
  EXPECT_NE(dav(http)->remove("a").error().message().find("answered 409: Conflict Cannot PUT"), std::string::npos);
}

TEST(RemoteDav, ATokenIsNotSentWithoutTls) {
  ::setenv("BEARER_TOKEN", "secret", 1);
  ScriptedHttp http({{reply("200 OK")}, {reply("200 OK")}});
  EXPECT_TRUE(dav(http)->look_up("a").ok());
  EXPECT_TRUE(taken(make_hdfs_server("webhdfs://" + http.host() + "/data"))->look_up("a").ok());
  ::unsetenv("BEARER_TOKEN");
  for (const auto& request : http.requests()) EXPECT_EQ(request.find("secret"), std::string::npos) << request;
}

TEST(RemoteDav, AConnectionThatBreaksIsAnErrorOfTheCall) {
  ScriptedHttp http({{"HTTP/1.1 206 Partial Content\r\nContent-Length: 9\r\n\r\nabc", true}, {"no HTTP at all", true}});
  const auto server = dav(http);
  const auto file = taken(server->open("a"));
  std::vector<std::byte> into(9);
  EXPECT_EQ(file->read(into, 0).error().code(), Errc::disconnected);
  EXPECT_EQ(file->read(into, 0).error().code(), Errc::disconnected);
}

TEST(RemoteDav, AnUploadGoesWhereTheServerSends) {
  ScriptedHttp pool({{reply("201 Created")}});
  ScriptedHttp door({{reply("307 Temporary", "", "Location: http://" + pool.host() + "/pool/a\r\n"), true, true}});
  const auto server = dav(door);
  const auto file = taken(server->create("a", {3, 3}));
  ASSERT_TRUE(file->write(bytes_of("abc"), 0).ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(pool.requests().at(0).substr(0, 11), "PUT /pool/a");
}

TEST(RemoteDav, ARedirectionWithoutEndEnds) {
  std::vector<Answer> answers(20, Answer{reply("307 Temporary", "", "Location: /again\r\n"), false});
  ScriptedHttp http(answers);
  EXPECT_FALSE(dav(http)->look_up("a").ok());
}

TEST(RemoteHdfs, ANameNodeWithoutADataNodeIsAnError) {
  ScriptedHttp http({{reply("201 Created")}, {reply("307 Temporary")}, {reply("403 Forbidden", "exists")}});
  const auto server = taken(make_hdfs_server("webhdfs://" + http.host() + "/data"));
  EXPECT_EQ(server->create("a", {}).error().code(), Errc::io);
  EXPECT_EQ(server->create("a", {}).error().code(), Errc::malformed);
  EXPECT_EQ(server->create("a", {}).error().code(), Errc::permission);
}

TEST(RemoteHdfs, TokensInRedirectionsAreNotInErrors) {
  ScriptedHttp pool({{"", true}});
  ScriptedHttp http({{reply("307 Temporary", "", "Location: http://" + pool.host() + "/a?delegation=secret\r\n")}});
  const auto server = taken(make_hdfs_server("webhdfs://" + http.host() + "/data"));
  const auto file = taken(server->create("a", {}));
  (void)file->write(bytes_of("abc"), 0);
  const auto closed = file->close();
  ASSERT_FALSE(closed.ok());
  EXPECT_NE(closed.error().message().find(pool.host() + "/a"), std::string::npos) << closed.error().message();
  EXPECT_EQ(closed.error().message().find("secret"), std::string::npos) << closed.error().message();
}

TEST(RemoteHdfs, AnAddressMayHaveColons) {
  const auto server = taken(make_hdfs_server("hdfs://[::1]/data"));
  const auto found = server->create("a", {});
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message().find("http://[::1]:9870/webhdfs"), std::string::npos) << found.error().message();
}

TEST(RemoteHdfs, ADeleteOfNothingSaysSo) {
  ScriptedHttp http({{reply("200 OK", R"({"boolean":false})")}});
  const auto server = taken(make_hdfs_server("webhdfs://" + http.host() + "/data"));
  EXPECT_EQ(server->remove("a").error().code(), Errc::not_found);
}

class RemoteS3 : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("AWS_ACCESS_KEY_ID", "key", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  }
  void TearDown() override {
    ::unsetenv("AWS_ACCESS_KEY_ID");
    ::unsetenv("AWS_SECRET_ACCESS_KEY");
  }
  static std::unique_ptr<Server> s3(const ScriptedHttp& http) {
    return taken(make_s3_server("s3://" + http.host() + "/bucket/a/"));
  }
};

constexpr std::uint64_t part = 5 << 20;

TEST_F(RemoteS3, KeysAreRequired) {
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(make_s3_server("s3://h:1/b").error().code(), Errc::permission);
}

TEST_F(RemoteS3, RequestsAreSigned) {
  ScriptedHttp http({{reply("200 OK")}});
  ASSERT_TRUE(s3(http)->look_up("x").ok());
  const auto request = http.requests().at(0);
  EXPECT_EQ(request.substr(0, 16), "HEAD /bucket/a/x");
  EXPECT_NE(request.find("AWS4-HMAC-SHA256 Credential=key/"), std::string::npos);
  EXPECT_EQ(request.find("secret"), std::string::npos);
}

TEST_F(RemoteS3, TemporaryKeysHaveATokenThatIsSigned) {
  ::setenv("AWS_SESSION_TOKEN", "session", 1);
  ScriptedHttp http({{reply("200 OK")}});
  const auto found = s3(http)->look_up("x");
  ::unsetenv("AWS_SESSION_TOKEN");
  ASSERT_TRUE(found.ok());
  EXPECT_NE(http.requests().at(0).find("x-amz-security-token: session"), std::string::npos);
  EXPECT_NE(http.requests().at(0).find(";x-amz-security-token"), std::string::npos) << http.requests().at(0);
}

TEST_F(RemoteS3, AnObjectInPartsIsCompletedWithTheirTags) {
  ScriptedHttp http({{reply("200 OK", "<U><UploadId>i d</UploadId></U>")},
                     {reply("200 OK", "", "ETag: \"one\"\r\n")},
                     {reply("200 OK", "", "ETag: \"two\"\r\n")},
                     {reply("200 OK", "<Result/>")}});
  const auto server = s3(http);
  const auto file = taken(server->create("x", {2 * part, part}));
  const std::vector<std::byte> bytes(part);
  ASSERT_TRUE(file->write(bytes, part).ok());
  ASSERT_TRUE(file->write(bytes, 0).ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_NE(http.requests().at(1).find("partNumber=2&uploadId=i%20d"), std::string::npos);
  EXPECT_NE(http.requests().at(3).find("<PartNumber>1</PartNumber><ETag>\"two\"</ETag>"), std::string::npos);
}

TEST_F(RemoteS3, UploadsThatWereNotCompletedAreForgotten) {
  const std::string mine = "<Upload><Key>a/x</Key><UploadId>1 2</UploadId></Upload>";
  const std::string others = "<Upload><Key>b/x</Key><UploadId>3</UploadId></Upload>";
  ScriptedHttp http({{reply("200 OK", "<Result>" + others + mine + "</Result>")},
                     {reply("204 No Content")},
                     {reply("200 OK", "<Result>" + others + "</Result>")}});
  ASSERT_TRUE(s3(http)->remove_folder("").ok());
  ASSERT_EQ(http.requests().size(), 3U);
  EXPECT_EQ(http.requests().at(0).substr(0, 50), "GET /bucket?max-uploads=100&prefix=a%2F&uploads= H");
  EXPECT_EQ(http.requests().at(1).substr(0, 33), "DELETE /bucket/a/x?uploadId=1%202");
}

TEST_F(RemoteS3, AServerThatDoesNotListUploadsHasNone) {
  ScriptedHttp http({{reply("501 Not Implemented")}, {reply("403 Forbidden")}});
  const auto server = s3(http);
  EXPECT_TRUE(server->remove_folder("").ok());
  EXPECT_EQ(server->remove_folder("").error().code(), Errc::permission);
}

TEST_F(RemoteS3, AnErrorBehindAStatusOfSuccessIsFound) {
  ScriptedHttp http({{reply("200 OK", "<UploadId>i</UploadId>")},
                     {reply("200 OK", "<Error><Code>InternalError</Code><Message>try again</Message></Error>")},
                     {reply("204 No Content")}});
  const auto server = s3(http);
  auto file = taken(server->create("x", {2 * part, part}));
  const auto closed = file->close();
  ASSERT_FALSE(closed.ok());
  EXPECT_NE(closed.error().message().find("InternalError: try again"), std::string::npos);
  file.reset();  // the server forgets the parts
  EXPECT_EQ(http.requests().at(2).substr(0, 7), "DELETE ");
}

TEST_F(RemoteS3, AnUploadWithoutAnIdAndPartsThatAreTooSmallAreErrors) {
  ScriptedHttp http({{reply("200 OK", "<UploadId>")}});
  const auto server = s3(http);
  EXPECT_EQ(server->create("x", {2 * part, part}).error().code(), Errc::malformed);
  EXPECT_EQ(server->create("x", {100, 10}).error().code(), Errc::unsupported);
}

}  // namespace
}  // namespace penstock::load_remote
