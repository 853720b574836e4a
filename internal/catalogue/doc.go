// Package catalogue decides what is true of a version: which in-tree providers, feature gates, flags, volume plugins
// and image credential providers it has. It also decides with which values of --cloud-provider its components start and
// which cloud-controller-manager image fits it. Further, it decides how far components may lag, and which keys a
// provider's cloud config may hold.
//
// All of it is data, with its sources in comments, and changes with time. Rules and plans ask it and hold no version
// numbers of their own. A minor is the 26 of v1.26. What the tables do not know is said to be unknown, never guessed.
//
// The tables of gates and flags (gates.txt, flags.txt) are generated. The tests read the source of every minor in the
// module cache into testdata, and testdata into the tables (go test -update). To add a minor, fetch its modules with go
// mod download, and name the version by an empty testdata/gates-v1.37.0.txt. Then raise Newest, and run the tests with
// -update.
package catalogue
