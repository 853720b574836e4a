// Package repopolicy decides what the repository has to look like, beyond what a linter sees. It says which package may
// know which, how large files may grow, and what must not be in them. It consists of tests; each rule is also tried on
// a tree that breaks it.
package repopolicy
