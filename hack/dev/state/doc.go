// Package state keeps what the development environment remembers between runs, in one directory (.dev): the variables
// that scripts read, the ports that were used, the secrets that were generated, and who holds the directory. It also finds
// the project, in which that directory lies.
//
// Everything is written whole or not at all (a temporary file, then a rename), and files with secrets are readable by
// their owner alone. It fails with *HeldError when another process holds the directory, else with wrapped errors of the
// file system. It must not import anything of the product.
package state
