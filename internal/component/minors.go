package component

// Oldest and Newest are the first and the last minor that the tables of gates and flags hold.
const (
	Oldest = 20
	Newest = 36
)
