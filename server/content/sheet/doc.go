// Package sheet imports exams from sheets: a folder of CSV files, or a workbook (XLSX). It also writes empty templates of both.
//
// A sheet's first row has names of columns, which package fields lists. The type of a column decides how its cells are read. A cell of another
// type is a problem with its position: nothing is guessed. This includes texts that a spreadsheet program may have changed to numbers.
package sheet
