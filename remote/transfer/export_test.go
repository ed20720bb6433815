package transfer

// Names for the external tests.
const (
	AheadSize   = aheadSize
	BindingFile = bindingFile
	IndexFolder = indexFolder
	LockFile    = lockFile
	PushFolder  = pushFolder
)

var (
	ErrNoFolder    = errNoFolder
	CheckStateFile = checkStateFile
	HasAll         = hasAll
)

// InWindows returns options for a fetch in windows of n chunks.
func InWindows(o FetchOptions, n int) FetchOptions {
	o.window = n
	return o
}
