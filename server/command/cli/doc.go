// Package cli has what all commands share: the variables of flags, checks of arguments, the error of a wrong call, and the output of a
// result.
package cli
