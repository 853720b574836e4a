// Package catalogue decides what is true of a version: which in-tree providers, feature gates, flags, volume plugins and image credential
// providers it has, which cloud-controller-manager image fits it, and which keys a provider's cloud config may hold.
//
// All of it is data, with its sources in comments, and changes with time; rules and plans ask it and hold no version numbers of their own. A
// minor is the 26 of v1.26. What the tables do not know is said to be unknown, never guessed.
package catalogue
