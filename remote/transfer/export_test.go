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
