package rootlog

import (
	"errors"
	"maps"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

func set(names ...int) map[pack.Name]struct{} {
	s := make(map[pack.Name]struct{})
	for _, n := range names {
		s[name(n)] = struct{}{}
	}
	return s
}

func TestClaim(t *testing.T) {
	refs := map[string]object.Key{"refs/heads/main": commit(1)}
	condemned := map[string]uint64{name(8).Path(): 4, name(9).IndexPath(): 5, StateName(name(10)): 5}
	toMain := []RefChange{{Name: "refs/heads/main", Old: commit(1), New: commit(2)}}
	for _, test := range []struct {
		name  string
		claim Claim
		live  map[pack.Name]struct{}
		want  error
	}{
		{"nothing", Claim{}, nil, nil},
		{"all packs live", Claim{Live: set(1, 2), Start: 3, Own: []string{name(3).Path()}, HasPacks: true, Refs: toMain}, set(1, 2, 4), nil},
		{"RELY_ON_ALL_LIVE: one pack no longer live", Claim{Live: set(1, 2)}, set(1, 4), ErrReplan},
		{"RELY_ON_ALL_LIVE: no pack live", Claim{Live: set(1)}, nil, ErrReplan},
		{"RECHECK_HEAD: own pack condemned", Claim{Start: 9, Own: []string{name(3).Path(), name(8).Path()}, HasPacks: true}, nil, ErrReplan},
		{"own index file condemned", Claim{Start: 9, Own: []string{name(9).IndexPath()}}, nil, ErrReplan},
		{"own state file condemned", Claim{Start: 9, Own: []string{StateName(name(10))}}, nil, ErrReplan},
		{"another kind of file with the same name", Claim{Start: 9, Own: []string{name(9).Path()}}, nil, nil},
		{"HEED_FLOOR: packs begun before the floor", Claim{Start: 2, Own: []string{name(3).Path()}, HasPacks: true}, nil, ErrFloor},
		{"index file begun before the floor", Claim{Start: 2, Own: []string{name(3).IndexPath()}}, nil, ErrFloor},
		{"packs begun at the floor", Claim{Start: 3, Own: []string{name(3).Path()}, HasPacks: true}, nil, nil},
		{"begun before the floor, without own files", Claim{Start: 2, Live: set(1)}, set(1), nil},
		{"floor before replan", Claim{Start: 2, Live: set(1), HasPacks: true, Own: []string{name(8).Path()}}, nil, ErrFloor},
		{"ref moved", Claim{Refs: []RefChange{{Name: "refs/heads/main", Old: commit(7), New: commit(2)}}}, nil, ErrRefMoved},
		{"ref exists", Claim{Refs: []RefChange{{Name: "refs/heads/main", New: commit(2)}}}, nil, ErrRefMoved},
		{"ref is gone", Claim{Refs: []RefChange{{Name: "refs/heads/x", Old: commit(1), New: commit(2)}}}, nil, ErrRefMoved},
		{"purged meanwhile", Claim{Records: records(purge(2))}, nil, ErrReplan},
		{"purged before", Claim{Records: records(purge(1), purge(2))}, nil, nil},
		{"listed as lost meanwhile", Claim{Lost: map[object.Key]string{}}, nil, ErrReplan},
		{"listed as lost before", Claim{Lost: map[object.Key]string{commit(9): "A"}}, nil, nil},
		{"another object listed as lost", Claim{Lost: map[object.Key]string{commit(8): "A"}}, nil, ErrReplan},
		{"new ref", Claim{Refs: []RefChange{{Name: "refs/heads/x", New: commit(2)}}}, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			head := &State{Seq: 6, Floor: 3, Refs: refs, Condemned: condemned, Records: records(purge(1))}
			if test.claim.Lost != nil {
				head.Lost = map[object.Key]string{commit(9): "A"}
			}
			if test.claim.Records == nil {
				head.Records = nil
			}
			live := maps.Clone(test.live)
			if err := test.claim.Check(head, live); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
}

func TestLive(t *testing.T) {
	s := &State{Packs: []Inline{inline(1, 1), inline(2, 1)}, Condemned: map[string]uint64{name(2).Path(): 1, name(4).Path(): 1, name(5).IndexPath(): 1}}
	got := s.Live([]pack.Info{{Name: name(3)}, {Name: name(4)}}, []pack.Info{{Name: name(3)}, {Name: name(5)}})
	if !maps.Equal(got, set(1, 3, 5)) {
		t.Errorf("Live = %v, want packs 1, 3 and 5", got)
	}
}
