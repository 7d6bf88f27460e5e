//! ringway-wire
