// Package chart pins the programs that check charts/examprep.
package chart
