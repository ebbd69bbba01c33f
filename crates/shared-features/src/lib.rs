//! Nothing: the manifest says which features of libraries all packages share.
