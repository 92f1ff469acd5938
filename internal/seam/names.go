package seam

// Names are the keys of one name.
type Names struct{ Key, LabelKey, MarkKey, FenceKey, WakeKey, QueueKey, EndsKey string }

// Names are all names of the call, the first one with them.
func (c *Call) Names() []Names {
	all := append(make([]Names, 0, 1+len(c.Also)), Names{c.Key, c.LabelKey, c.MarkKey, c.FenceKey, c.WakeKey, c.QueueKey, c.EndsKey})
	return append(all, c.Also...)
}
