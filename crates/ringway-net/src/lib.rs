//! ringway-net
