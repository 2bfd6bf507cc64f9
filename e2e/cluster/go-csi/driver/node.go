package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const zoneLabel = "topology.kubernetes.io/zone"

// Mounts images on one node. An image is locked while it is mounted, so that no two nodes mount it; the lock of a node without power ends with it.
type mounter struct {
	csi.UnimplementedNodeServer
	node, zone, images, served string
	lock                       sync.Mutex
	held                       map[string]*os.File // by target
}

func (s *mounter) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	here := &csi.Topology{Segments: map[string]string{zoneLabel: s.zone}}
	return &csi.NodeGetInfoResponse{NodeId: s.node, AccessibleTopology: here}, nil
}

func (s *mounter) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	grows := &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
		Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_EXPAND_VOLUME},
	}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{grows}}, nil
}

func (s *mounter) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	image, err := imageOf(s.images, request.VolumeId)
	if err != nil {
		return nil, err
	}
	if s.held[request.TargetPath] != nil {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	file, err := os.Open(image)
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, status.Errorf(codes.FailedPrecondition, "%s is in use on another node", request.VolumeId)
	}
	if err := mount(image, filepath.Join(s.served, filepath.Base(image)), request.TargetPath, request.Readonly); err != nil {
		file.Close()
		return nil, status.Error(codes.Internal, err.Error())
	}
	s.held[request.TargetPath] = file
	return &csi.NodePublishVolumeResponse{}, nil
}

func (s *mounter) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	// Not asked before: the root of a file system that has shut down cannot be looked at.
	if err := run("umount", request.TargetPath); err != nil && !strings.Contains(err.Error(), "not mounted") && !strings.Contains(err.Error(), "no mount point") {
		return nil, err
	}
	if err := os.Remove(request.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if file := s.held[request.TargetPath]; file != nil {
		file.Close()
		delete(s.held, request.TargetPath)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *mounter) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	image, err := imageOf(s.images, request.VolumeId)
	if err != nil {
		return nil, err
	}
	// The kernel learns the new size of a served file when somebody asks for it.
	if _, err := os.Stat(filepath.Join(s.served, filepath.Base(image))); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	device, err := exec.Command("findmnt", "--noheadings", "--output=SOURCE", request.VolumePath).Output()
	if err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	if err := run("losetup", "--set-capacity", strings.TrimSpace(string(device))); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if err := run("xfs_growfs", request.VolumePath); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: request.GetCapacityRange().GetRequiredBytes()}, nil
}

// Mount an image from where it is served, with a new file system if it has none.
func mount(image, served, target string, readonly bool) error {
	if exec.Command("blkid", "--probe", image).Run() != nil {
		if err := run("mkfs.xfs", "-q", image); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	options := "loop,nouuid"
	if readonly {
		options += ",ro"
	}
	return run("mount", "-o", options, served, target)
}

func run(command ...string) error {
	output, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return status.Errorf(codes.Internal, "%s: %v: %s", strings.Join(command, " "), err, output)
	}
	return nil
}
