// The headers that all libraries share are compiled with this source (CMakeLists.txt).
