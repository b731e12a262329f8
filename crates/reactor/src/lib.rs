//! One event loop per worker, over io_uring or epoll.
