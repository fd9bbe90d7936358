// The headers that all tests share are compiled with this source (CMakeLists.txt).
