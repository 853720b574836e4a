package v1alpha1

// OrphanList is what remove-orphans found of the cloud objects that it was given, and what became of each.
type OrphanList struct {
	TypeMeta `json:",inline"`
	Cluster  Cluster `json:"cluster"`
	// Changed reports whether anything was removed.
	Changed bool     `json:"changed"`
	Orphans []Orphan `json:"orphans"`
}

// Orphan is a cloud object that a manager made for a Service which may be gone.
type Orphan struct {
	ID string `json:"id"`
	// Kind is "load balancer", "floating IP" or "security group"; empty for an object that does not exist.
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
	// Service is what the object's name or description says: namespace/name, or a UID.
	Service string      `json:"service,omitempty"`
	State   OrphanState `json:"state"`
	// Reason is why it is not removed, or what it waits for.
	Reason string `json:"reason,omitempty"`
	// Goes is all that is deleted with it, itself first. Stays is what belongs to it and is not deleted.
	Goes  []OrphanPart `json:"goes,omitempty"`
	Stays []OrphanPart `json:"stays,omitempty"`
}

// OrphanPart is one cloud object that goes with an orphan, or stays.
type OrphanPart struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Reason is why it stays.
	Reason string `json:"reason,omitempty"`
}

// OrphanState is what may be done with an orphan, or was done.
type OrphanState string

// States of an orphan.
const (
	// OrphanFound may be removed.
	OrphanFound OrphanState = "found"
	// OrphanRefused is no orphan of this cluster, as far as can be known.
	OrphanRefused OrphanState = "refused"
	// OrphanPending is being changed: it can be removed later.
	OrphanPending OrphanState = "pending"
	// OrphanRemoved is gone.
	OrphanRemoved OrphanState = "removed"
	// OrphanMissing did not exist when the command started.
	OrphanMissing OrphanState = "missing"
)
