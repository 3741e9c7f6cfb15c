// Package importer turns exams that were read from files of any format into files of ExamContents and ConfigMaps.
//
// A format's package reads its files into an [Input]. Import validates the exams as the operator would, seals them if asked to, and writes the
// files. It writes all of them or none: they are staged in a folder of their own and moved when they are complete.
package importer
