//! ringway
