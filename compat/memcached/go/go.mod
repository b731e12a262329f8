module pantala/compat/gomemcache

go 1.26

require github.com/bradfitz/gomemcache v0.0.0-20250403215159-8d39553ac7cf
