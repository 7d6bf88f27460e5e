//! ringway-runtime
