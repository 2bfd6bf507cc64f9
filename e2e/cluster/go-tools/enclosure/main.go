// Enclosure holds the disks of the testbed: it serves a folder of disk images through FUSE as they are, until it is
// told that a disk is slow, hangs or fails. What is mounted from such an image then behaves as on a sick disk, for
// everyone, in the kernel's statistics too.
//
//	enclosure IMAGES MOUNTPOINT SOCKET
//
// Orders come over the socket, one per connection, as JSON:
//
//	{"file": "node1/disk0-1.img", "mode": "slow", "milliseconds": 200}
//
// Modes are well, slow, hang and error. The answer is what holds now for all files that are not well, as JSON.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Order says how a disk behaves from now on.
type Order struct {
	File         string `json:"file"`
	Mode         string `json:"mode"`
	Milliseconds int    `json:"milliseconds"`
}

// Health knows how every disk behaves.
type Health struct {
	mutex   sync.Mutex
	orders  map[string]Order
	changed chan struct{} // closed, and replaced, whenever an order comes
}

func newHealth() *Health {
	return &Health{orders: map[string]Order{}, changed: make(chan struct{})}
}

func (h *Health) set(order Order) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if order.Mode == "well" {
		delete(h.orders, order.File)
	} else if order.File != "" {
		h.orders[order.File] = order
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *Health) get(file string) (Order, chan struct{}) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.orders[file], h.changed
}

// suffer waits or fails as the disk's health has it, before each request. A request that hangs goes on, or fails,
// when a later order says so; a slow one is not made faster.
func (h *Health) suffer(ctx context.Context, file string) syscall.Errno {
	for {
		order, changed := h.get(file)
		switch order.Mode {
		case "error":
			return syscall.EIO
		case "slow":
			time.Sleep(time.Duration(order.Milliseconds) * time.Millisecond)
			return 0
		case "hang":
			select {
			case <-changed:
			case <-ctx.Done():
				return syscall.EINTR
			}
		default:
			return 0
		}
	}
}

func (h *Health) serve(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer connection.Close()
			var order Order
			if err := json.NewDecoder(connection).Decode(&order); err != nil {
				log.Print(err)
				return
			}
			h.set(order)
			h.mutex.Lock()
			defer h.mutex.Unlock()
			json.NewEncoder(connection).Encode(h.orders)
		}()
	}
}

// node is a file or folder of the images.
type node struct {
	fs.LoopbackNode
	health *Health
}

// Open opens an image. The kernel caches what is mounted from it; a second cache here would hide the disk's health.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	name := n.Path(n.Root())
	handle, err := syscall.Open(filepath.Join(n.RootData.Path, name), int(flags)&^syscall.O_APPEND, 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	return &disk{handle: handle, name: name, health: n.health}, fuse.FOPEN_DIRECT_IO, 0
}

// disk is an image that was opened.
type disk struct {
	handle int
	name   string
	health *Health
}

func (d *disk) Read(ctx context.Context, dest []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if errno := d.health.suffer(ctx, d.name); errno != 0 {
		return nil, errno
	}
	return fuse.ReadResultFd(uintptr(d.handle), offset, len(dest)), 0
}

func (d *disk) Write(ctx context.Context, data []byte, offset int64) (uint32, syscall.Errno) {
	if errno := d.health.suffer(ctx, d.name); errno != 0 {
		return 0, errno
	}
	written, err := syscall.Pwrite(d.handle, data, offset)
	return uint32(max(written, 0)), fs.ToErrno(err)
}

func (d *disk) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if errno := d.health.suffer(ctx, d.name); errno != 0 {
		return errno
	}
	return fs.ToErrno(syscall.Fdatasync(d.handle))
}

func (d *disk) Allocate(ctx context.Context, offset uint64, size uint64, mode uint32) syscall.Errno {
	if errno := d.health.suffer(ctx, d.name); errno != 0 {
		return errno
	}
	return fs.ToErrno(syscall.Fallocate(d.handle, mode, int64(offset), int64(size)))
}

func (d *disk) Getattr(ctx context.Context, out *fuse.AttrOut) syscall.Errno {
	var stat syscall.Stat_t
	if err := syscall.Fstat(d.handle, &stat); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStat(&stat)
	return 0
}

func (d *disk) Release(ctx context.Context) syscall.Errno {
	return fs.ToErrno(syscall.Close(d.handle))
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("enclosure IMAGES MOUNTPOINT SOCKET")
	}
	images, mountpoint, socket := os.Args[1], os.Args[2], os.Args[3]
	health := newHealth()
	root := &fs.LoopbackRoot{Path: images}
	root.NewNode = func(data *fs.LoopbackRoot, parent *fs.Inode, name string, stat *syscall.Stat_t) fs.InodeEmbedder {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: data}, health: health}
	}
	top := &node{LoopbackNode: fs.LoopbackNode{RootData: root}, health: health}
	root.RootNode = top
	options := &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, AllowOther: true, DisableXAttrs: true, MaxWrite: 1 << 20, FsName: "enclosure", Name: "enclosure",
	}}
	server, err := fs.Mount(mountpoint, top, options)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket) // that the socket is there tells that all is mounted
	if err != nil {
		log.Fatal(err)
	}
	go health.serve(listener)
	server.Wait()
}
