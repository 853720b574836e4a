package election

import "time"

// SetWall gives a process a wall clock of its own.
func (c *Config) SetWall(wall func() time.Time) { c.wall = wall }
