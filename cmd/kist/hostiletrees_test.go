package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// forbiddenNames must not be in a tree.
var forbiddenNames = []string{
	"", ".", "..", "/", "a/b", "../outside/secret", "/etc/kist-was-here", "a\x00b", strings.Repeat("x", 256), strings.Repeat("x", 70_000),
	".kist", ".KIST", ".Kist", ".kisT", ".kist.", ".kist ", ".kist. .", ".kist..", ".kist::$INDEX_ALLOCATION", ".kist:config", ".KIST::$DATA",
	"kist~1", "KIST~1", "Kist~9", "KIST~10", "ki4178~1", "KI4178~1", "KIST~1.", "KIST~1:x",
	".k\u200cist", ".\u200ckist", "\ufeff.kist", ".kist\u200d", ".ki\u00adst", ".KI\u2060ST", ".\u212aist", ".ki\u017ft", ".ki\ufb06",
}

// strangeNames are odd, but allowed.
var strangeNames = []string{
	" ", "...", "..a", ".kis", ".kistignore", "kist", "x.kist", "a\\b", "..\\outside", "C:", "NUL", "con.txt", "\n", "\x01\x1b[2J", "\xff\xfe",
	"-rf", "--force", "*", "~", "$HOME", strings.Repeat("y", 255), "a:b", "\u202egpj.exe",
}

// hostileNames returns trees with files, folders and symlinks of forbidden names, and
// valid trees with strange names.
func hostileNames() (list []hostile) {
	for _, name := range forbiddenNames {
		short := fmt.Sprintf("%.30q", name)
		list = append(list,
			hostile{name: "file named " + short, tree: func(b *builder) object.Key {
				return b.tree(rawFile(name, payload))
			}},
			hostile{name: "folder named " + short, tree: func(b *builder) object.Key {
				return b.tree(b.dir(name, rawFile("config", payload), rawFile("secret", payload)))
			}},
			hostile{name: "below a folder, symlink named " + short, tree: func(b *builder) object.Key {
				return b.tree(b.dir("below", rawLink(name, "../outside")))
			}},
		)
	}
	for _, name := range strangeNames {
		list = append(list, hostile{name: fmt.Sprintf("strange name %.30q", name), good: true, tree: func(b *builder) object.Key {
			return b.tree(b.dir(name, rawFile(name, payload)))
		}})
	}
	return list
}

// hostileEntries returns trees with entries that contradict themselves or each other.
func hostileEntries() (list []hostile) {
	add := func(name string, entries func(b *builder) []rawEntry) {
		list = append(list, hostile{name: name, tree: func(b *builder) object.Key { return b.tree(entries(b)...) }})
	}
	one := func(name string, change func(e *rawEntry, b *builder)) {
		add(name, func(b *builder) []rawEntry {
			e := rawFile("file", payload)
			change(&e, b)
			return []rawEntry{e}
		})
	}

	add("two files of one name", func(*builder) []rawEntry {
		return []rawEntry{rawFile("a", payload), rawFile("a", payload+"!")}
	})
	add("symlink and folder of one name", func(b *builder) []rawEntry {
		return []rawEntry{rawLink("a", "../outside"), b.dir("a", rawFile("secret", payload))}
	})
	add("symlink to .kist and folder of one name", func(b *builder) []rawEntry {
		return []rawEntry{rawLink("s", ".kist"), b.dir("s", rawFile("config", payload))}
	})
	add("folder and symlink of one name", func(b *builder) []rawEntry {
		return []rawEntry{b.dir("a", rawFile("secret", payload)), rawLink("a", "../outside")}
	})
	add("not sorted", func(*builder) []rawEntry {
		return []rawEntry{rawFile("b", payload), rawFile("a", payload)}
	})
	add("the same symlink with other entries between", func(b *builder) []rawEntry {
		return []rawEntry{rawLink("a", "../outside"), rawFile("b", payload), b.dir("a", rawFile("secret", payload))}
	})

	for _, typ := range []uint64{0, 8, 255, 1 << 32} {
		one(fmt.Sprintf("type %d", typ), func(e *rawEntry, _ *builder) { e.typ = typ })
	}
	one("mode with more than permission bits", func(e *rawEntry, _ *builder) { e.mode = 0o120777 })
	one("mode beyond 16 bits", func(e *rawEntry, _ *builder) { e.mode = 1<<16 | 0o644 })
	one("size beyond 2^63", func(e *rawEntry, _ *builder) { e.size = 1 << 63 })
	one("size differs from inline content", func(e *rawEntry, _ *builder) { e.size = 5 })
	one("33 bytes inline", func(e *rawEntry, _ *builder) { e.inline, e.size = strings.Repeat("x", 33), 33 })
	one("size without content", func(e *rawEntry, _ *builder) { e.inline = "" })
	one("inline and linked content", func(e *rawEntry, b *builder) { e.content = b.chunk(payload) })
	one("file with a target", func(e *rawEntry, _ *builder) { e.target = "../outside/secret" })
	one("file with a number of files", func(e *rawEntry, _ *builder) { e.files = 1 })
	one("unknown field", func(e *rawEntry, _ *builder) { e.unknown = true })
	one("symlink without a target", func(e *rawEntry, _ *builder) { *e = rawLink("l", "") })
	one("symlink with NUL in its target", func(e *rawEntry, _ *builder) { *e = rawLink("l", "../outside\x00/x") })
	one("symlink with a target of 5,000 bytes", func(e *rawEntry, _ *builder) { *e = rawLink("l", strings.Repeat("x", 5000)) })
	one("symlink with content", func(e *rawEntry, b *builder) { *e = rawLink("l", "t"); e.content = b.chunk(payload) })
	one("folder without content", func(e *rawEntry, _ *builder) { *e = rawEntry{name: "d", typ: 2, mode: 0o755} })
	one("folder that is a chunk", func(e *rawEntry, b *builder) { *e = rawEntry{name: "d", typ: 2, content: b.chunk(payload)} })
	one("folder that is a file's manifest", func(e *rawEntry, b *builder) {
		*e = rawEntry{name: "d", typ: 2, content: b.node(rawManifest(0, rawChild{end: 1, key: b.chunk("x")}, rawChild{end: 1, key: b.chunk("y")}))}
	})
	one("file that is a tree", func(e *rawEntry, b *builder) {
		*e = rawEntry{name: "f", typ: 1, size: 100, content: b.tree(rawFile("a", payload))}
	})
	one("file that is a commit", func(e *rawEntry, b *builder) {
		*e = rawEntry{name: "f", typ: 1, size: 100, content: object.Key{Kind: object.KindCommit, ID: object.Sum(nil)}}
	})

	for typ := uint64(4); typ <= 7; typ++ {
		one(fmt.Sprintf("special file of type %d with content", typ), func(e *rawEntry, _ *builder) { e.typ = typ })
	}
	return list
}

// hostileNodes returns trees whose root is not a well-formed node.
func hostileNodes() (list []hostile) {
	raw := func(name string, change func(data []byte) []byte) {
		list = append(list, hostile{name: name, tree: func(b *builder) object.Key {
			return b.put(object.KindTree, change(rawTree(rawFile("a", payload)).encode()))
		}})
	}

	links := func(name string, change func(n *rawNode)) {
		list = append(list, hostile{name: name, tree: func(b *builder) object.Key {
			n := rawTree(rawEntry{name: "a", typ: 1, mode: 0o644, size: uint64(len(payload)), content: b.chunk(payload)})
			change(&n)
			return b.node(n)
		}})
	}

	raw("one byte", func(data []byte) []byte { return data[:1] })
	raw("half a node", func(data []byte) []byte { return data[:len(data)/2] })
	raw("other magic", func(data []byte) []byte { data[0] = 'K'; return data })
	raw("tag stored as a tree", func(data []byte) []byte { data[2] = byte(object.KindTag); return data })
	raw("version 0", func(data []byte) []byte { data[3] = 0; return data })
	raw("version 2", func(data []byte) []byte { data[3] = 2; return data })
	raw("trailing byte", func(data []byte) []byte { return append(data, 0) })
	raw("count of links not canonical", func(data []byte) []byte { return slices.Concat(data[:4], []byte{0x80, 0}, data[5:]) })
	raw("2^63 links", func(data []byte) []byte {
		return slices.Concat(data[:4], bytes.Repeat([]byte{0xff}, 9), []byte{1}, data[5:])
	})
	raw("2^32 entries", func(data []byte) []byte {
		return append(data[:7], cborArray|26, 0xff, 0xff, 0xff, 0xff)
	})
	raw("2^63 entries", func(data []byte) []byte {
		return append(data[:7], cborArray|27, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	})
	raw("array without an end", func(data []byte) []byte { data[7] = cborArray | 31; return append(data, 0xff) })
	raw("arrays in arrays", func(data []byte) []byte { return append(data[:8], bytes.Repeat([]byte{cborArray | 1}, 100_000)...) })
	raw("name of 2^40 bytes", func(data []byte) []byte {
		return append(data[:8], cborMap|1, 1, cborBytes|27, 0, 0, 1, 0, 0, 0, 0, 0)
	})
	raw("key not canonical", func(data []byte) []byte {
		// {1: "a", 2: 1} with the first key as two bytes
		return append(data[:8], cborMap|2, cborUint|24, 1, cborBytes|1, 'a', 2, 1)
	})
	raw("field twice", func(data []byte) []byte {
		return append(data[:8], cborMap|3, 1, cborBytes|1, 'a', 1, cborBytes|1, 'b', 2, 1)
	})
	raw("fields not sorted", func(data []byte) []byte { return append(data[:8], cborMap|2, 2, 1, 1, cborBytes|1, 'a') })
	raw("name as text", func(data []byte) []byte { return append(data[:8], cborMap|2, 1, 0x61, 'a', 2, 1) })
	raw("level 16", func(data []byte) []byte { data[6] = 16; return data })
	raw("level 200", func(data []byte) []byte { return slices.Concat(data[:6], []byte{24, 200}, data[7:]) })
	raw("a map", func([]byte) []byte { return rawNode{object.KindTree, 1, nil, []byte{cborMap}}.encode() })
	raw("no body", func([]byte) []byte { return rawNode{object.KindTree, 1, nil, nil}.encode() })
	raw("1,025 entries", func([]byte) []byte {
		var entries []rawEntry
		for i := range 1025 {
			entries = append(entries, rawFile(fmt.Sprintf("%05d", i), payload))
		}
		return rawTree(entries...).encode()
	})
	raw("more than 256 KiB", func([]byte) []byte {
		var entries []rawEntry
		for i := range 1000 {
			entries = append(entries, rawLink(fmt.Sprintf("%05d%s", i, strings.Repeat("n", 200)), strings.Repeat("t", 200)))
		}
		return rawTree(entries...).encode()
	})
	links("link that is not used", func(n *rawNode) { n.link(object.Key{Kind: object.KindChunk, ID: object.Sum([]byte("x"))}) })
	links("link twice", func(n *rawNode) { n.links = append(n.links, n.links[0]) })
	links("link to nothing", func(n *rawNode) { n.links[0].ID = object.ID{} })
	links("link of an unknown kind", func(n *rawNode) { n.links[0].Kind = 99 })
	links("link to a commit", func(n *rawNode) { n.links[0].Kind = object.KindCommit })
	links("link to a tag", func(n *rawNode) { n.links[0].Kind = object.KindTag })
	links("position beyond the links", func(n *rawNode) { n.links = nil })
	links("missing chunk", func(n *rawNode) { n.links[0].ID = object.Sum([]byte("not stored")) })
	list = append(list, hostile{name: "missing root", tree: func(*builder) object.Key {
		return object.Key{Kind: object.KindTree, ID: object.Sum([]byte("no tree"))}
	}})
	return list
}

// hostileContents returns trees with files whose content does not match their entry.
func hostileContents() (list []hostile) {
	file := func(name string, content func(b *builder) (size uint64, key object.Key)) {
		list = append(list, hostile{name: name, tree: func(b *builder) object.Key {
			size, key := content(b)
			return b.tree(rawEntry{name: "f", typ: 1, mode: 0o644, size: size, content: key})
		}})
	}

	text := strings.Repeat(payload, 5)
	whole := uint64(len(text))

	part := func(b *builder, i int) rawChild {
		data := fmt.Sprintf("%d%s", i, text)
		return rawChild{end: uint64(len(data)), key: b.chunk(data)}
	}

	file("chunk longer than the file", func(b *builder) (uint64, object.Key) { return whole - 1, b.chunk(text) })
	file("chunk shorter than the file", func(b *builder) (uint64, object.Key) { return whole + 1, b.chunk(text) })
	file("chunk for a file that fits into its entry", func(b *builder) (uint64, object.Key) { return 5, b.chunk("short") })
	file("chunk, and a size of 1 GiB", func(b *builder) (uint64, object.Key) { return 1 << 30, b.chunk(text) })
	file("missing manifest", func(b *builder) (uint64, object.Key) {
		return whole, object.Key{Kind: object.KindManifest, ID: object.Sum(nil)}
	})
	file("manifest of one chunk", func(b *builder) (uint64, object.Key) {
		p := part(b, 0)
		return p.end, b.node(rawManifest(0, p))
	})
	file("manifest without chunks", func(b *builder) (uint64, object.Key) { return whole, b.node(rawManifest(0)) })
	file("manifest shorter than the file", func(b *builder) (uint64, object.Key) {
		return 1 << 20, b.node(rawManifest(0, part(b, 0), part(b, 1)))
	})
	file("manifest longer than the file", func(b *builder) (uint64, object.Key) {
		return whole, b.node(rawManifest(0, part(b, 0), part(b, 1)))
	})
	file("chunk longer than its manifest says", func(b *builder) (uint64, object.Key) {
		p, q := part(b, 0), part(b, 1)
		p.end--
		return p.end + q.end, b.node(rawManifest(0, p, q))
	})
	file("chunk of 0 bytes in a manifest", func(b *builder) (uint64, object.Key) {
		p, q := part(b, 0), part(b, 1)
		q.end = 0
		return p.end, b.node(rawManifest(0, p, q))
	})
	file("chunk of 17 MiB in a manifest", func(b *builder) (uint64, object.Key) {
		p, q := part(b, 0), part(b, 1)
		q.end = 17 << 20
		return p.end + q.end, b.node(rawManifest(0, p, q))
	})
	file("manifest of trees", func(b *builder) (uint64, object.Key) {
		tree := b.tree(rawFile("a", payload))
		return 100, b.node(rawManifest(1, rawChild{end: 50, key: tree}, rawChild{end: 100, key: tree}))
	})
	file("manifest whose level does not match its parent", func(b *builder) (uint64, object.Key) {
		leaf := b.node(rawManifest(0, part(b, 0), part(b, 1)))
		other := b.node(rawManifest(0, part(b, 2), part(b, 3)))
		size := 2 * (whole + 1)
		return 2 * size, b.node(rawManifest(3, rawChild{end: size, key: leaf}, rawChild{end: 2 * size, key: other}))
	})
	file("manifest whose ends do not ascend", func(b *builder) (uint64, object.Key) {
		leaf := b.node(rawManifest(0, part(b, 0), part(b, 1)))
		return 2 * (whole + 1), b.node(rawManifest(1, rawChild{end: 2 * (whole + 1), key: leaf}, rawChild{end: 5, key: b.node(rawManifest(0, part(b, 2), part(b, 3)))}))
	})
	file("manifest that wraps around 2^64", func(b *builder) (uint64, object.Key) {
		leaf := b.node(rawManifest(0, part(b, 0), part(b, 1)))
		return 100, b.node(rawManifest(1, rawChild{end: 1<<64 - 1, key: leaf}, rawChild{end: 100, key: b.node(rawManifest(0, part(b, 2), part(b, 3)))}))
	})
	return list
}

// hostileShapes returns trees whose nodes or totals contradict each other, and valid
// trees that are hard to write to disk.
func hostileShapes() (list []hostile) {
	add := func(name string, tree func(b *builder) object.Key) {
		list = append(list, hostile{name: name, tree: tree})
	}
	soft := func(name string, tree func(b *builder) object.Key) {
		list = append(list, hostile{name: name, tree: tree, soft: true})
	}
	good := func(name string, tree func(b *builder) object.Key) {
		list = append(list, hostile{name: name, tree: tree, good: true})
	}
	leaf := func(b *builder, names ...string) rawChild {
		var entries []rawEntry
		for _, name := range names {
			entries = append(entries, rawFile(name, payload))
		}
		return rawChild{last: names[len(names)-1], key: b.tree(entries...)}
	}
	add("inner node without children", func(b *builder) object.Key { return b.node(rawInner(1)) })
	add("child with another last name", func(b *builder) object.Key {
		first := leaf(b, "a", "b")
		first.last = "bb"
		return b.node(rawInner(1, first, leaf(b, "c", "d")))
	})
	add("children that overlap", func(b *builder) object.Key {
		return b.node(rawInner(1, leaf(b, "a", "c"), leaf(b, "b", "d")))
	})
	add("name in two children", func(b *builder) object.Key {
		return b.node(rawInner(1, leaf(b, "a", "b"), leaf(b, "b", "c")))
	})
	add("symlink in one child, folder with the same name in the next", func(b *builder) object.Key {
		first := rawChild{last: "s", key: b.tree(rawLink("s", "../outside"))}
		return b.node(rawInner(1, first, rawChild{last: "t", key: b.tree(b.dir("s", rawFile("secret", payload)), rawFile("t", payload))}))
	})
	add("children not sorted", func(b *builder) object.Key {
		return b.node(rawInner(1, leaf(b, "c", "d"), leaf(b, "a", "b")))
	})
	add("child with .. as its last name", func(b *builder) object.Key {
		return b.node(rawInner(1, rawChild{last: "..", key: b.tree(rawFile("..", payload))}, leaf(b, "a")))
	})
	add("child two levels down", func(b *builder) object.Key {
		return b.node(rawInner(2, leaf(b, "a", "b"), leaf(b, "c", "d")))
	})
	add("child that is a manifest", func(b *builder) object.Key {
		m := b.node(rawManifest(0, rawChild{end: 1, key: b.chunk("x")}, rawChild{end: 1, key: b.chunk("y")}))
		return b.node(rawInner(1, rawChild{last: "a", key: m}, leaf(b, "b")))
	})
	add("missing child", func(b *builder) object.Key {
		return b.node(rawInner(1, leaf(b, "a", "b"), rawChild{last: "d", key: object.Key{Kind: object.KindTree, ID: object.Sum([]byte("none"))}}))
	})
	add("empty child", func(b *builder) object.Key {
		return b.node(rawInner(1, leaf(b, "a", "b"), rawChild{last: "c", key: b.tree()}))
	})
	add("missing folder", func(b *builder) object.Key {
		return b.tree(rawEntry{name: "d", typ: 2, mode: 0o755, content: object.Key{Kind: object.KindTree, ID: object.Sum([]byte("none"))}})
	})
	add("damaged folder deep down", func(b *builder) object.Key {
		bad := b.put(object.KindTree, []byte("kn no tree"))
		return b.tree(b.dir("a", b.dir("b", rawEntry{name: "c", typ: 2, mode: 0o755, content: bad})))
	})
	soft("root with one child", func(b *builder) object.Key { return b.node(rawInner(1, leaf(b, "a", "b"))) })
	good("nodes shorter than kist makes them", func(b *builder) object.Key { return b.node(rawInner(1, leaf(b, "a", "b"), leaf(b, "c", "d"))) })
	for name, change := range map[string]func(e *rawEntry){
		"too few files":    func(e *rawEntry) { e.files-- },
		"too many files":   func(e *rawEntry) { e.files += 1 << 60 },
		"too few bytes":    func(e *rawEntry) { e.size = 0 },
		"2^64 bytes":       func(e *rawEntry) { e.size = 1<<64 - 1 },
		"2^64 files":       func(e *rawEntry) { e.files = 1<<64 - 1 },
		"a few more bytes": func(e *rawEntry) { e.size += 3 },
	} {
		soft("totals of a folder: "+name, func(b *builder) object.Key {
			e := b.dir("d", rawFile("a", payload), rawFile("b", payload))
			change(&e)
			return b.tree(e)
		})
	}
	soft("totals that add up to more than 2^64", func(b *builder) object.Key {
		d, e := b.dir("d", rawFile("a", payload)), b.dir("e", rawFile("a", payload))
		d.files, e.files = 1<<63, 1<<63
		return b.tree(d, e)
	})
	tooDeep := func(name string, depth int) {
		list = append(list, hostile{name: name, deep: true, tree: func(b *builder) object.Key { return deep(b, depth, "d") }})
	}
	tooDeep("folders 3,000 deep", 3000)
	tooDeep("folders 8,000 deep", 8000)

	good("folders 1,000 deep", func(b *builder) object.Key { return deep(b, 1000, "e") })
	good("a path of 100,000 bytes", func(b *builder) object.Key { return deep(b, 400, strings.Repeat("long", 60)) })
	good("symlinks to everywhere", func(b *builder) object.Key {
		return b.tree(rawLink("a", "../outside"), rawLink("b", ".kist"), rawLink("c", "/"), rawLink("d", "d"), rawLink("e", ".kist/config"),
			rawLink("kept", "../outside/secret"), rawLink("z", strings.Repeat("../", 1000)))
	})
	good("folder replaces a link, and link a folder", func(b *builder) object.Key {
		return b.tree(b.dir("a", rawFile("secret", payload)), rawLink("folder", "../outside/folder"))
	})
	good("names that differ in case only", func(b *builder) object.Key {
		return b.tree(rawFile("A", payload), b.dir("B", rawFile("c", payload)), rawFile("a", payload), rawLink("b", "../outside"))
	})
	good("names that differ in their Unicode form only", func(b *builder) object.Key {
		return b.tree(rawLink("e\u0301", "../outside"), b.dir("\u00e9", rawFile("secret", payload)))
	})
	good("permissions that take everything away", func(b *builder) object.Key {
		d := b.dir("d", rawFile("a", payload))
		d.mode = 0
		f := rawFile("f", payload)
		f.mode = 0o7777
		return b.tree(d, f)
	})
	good("times far away", func(b *builder) object.Key {
		old, new := rawFile("a", payload), rawFile("b", payload)
		old.seconds, new.seconds = -1<<62, 1<<62
		return b.tree(old, new)
	})
	good("an ignore file that is a link, and one that is a folder", func(b *builder) object.Key {
		return b.tree(rawLink(".kistignore", "/dev/zero"), b.dir("d", b.dir(".kistignore", rawFile("a", payload))))
	})
	good("empty", func(b *builder) object.Key { return b.tree() })
	return list
}

// deep returns a tree of nested folders, with a file in the innermost.
func deep(b *builder, depth int, name string) object.Key {
	e := rawFile(name, payload)
	for range depth {
		e = b.dir(name, e)
	}
	return e.content
}
