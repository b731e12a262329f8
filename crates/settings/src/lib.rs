//! Every setting, declared once; flags, redis.conf, environment.
