// Package grid reads CSV files and XLSX workbooks as rows of cells. It reports the type of each cell, and interprets nothing: it evaluates
// no formula and does not guess.
//
// Files can be hostile, so all sizes have a limit: the file, the unpacked XML, an XML token, the depth of elements, a record, a cell, the
// columns and the rows. Memory depends on these limits and not on numbers in the file.
//
// XLSX is read with archive/zip and encoding/xml. The streaming reader of excelize returns neither the type of a cell nor its formula, and it
// ends without an error where the XML is cut off.
package grid
