// Package conformance compares three answers to one question: a new connection
// from here to there, what becomes of it?
//
//	reading  what semantics says, in a package that knows no nftables
//	trace    what the computed ruleset does, interpreted as a value
//	lab      what the kernel does with that ruleset, between real hosts
//
// The rows of table_test.go are the place to learn what each field means.
// Generated combinations of the fields check that the three agree elsewhere
// too, and mutations of the program that no rule in it goes unchecked.
package conformance
