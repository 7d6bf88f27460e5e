//! The epoll driver: the same contract over readiness.
