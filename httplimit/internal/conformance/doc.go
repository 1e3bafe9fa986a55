// Package conformance tests that the header fields of httplimit can be read by a parser of
// structured fields that is not ours. It is a module of its own, so that programs that use
// httplimit do not depend on that parser.
package conformance
