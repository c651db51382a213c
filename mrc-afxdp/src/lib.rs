//! mrc-afxdp
