package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const least = 320 << 20 // bytes; mkfs.xfs makes no smaller file system

// Creates, deletes and enlarges images.
type controller struct {
	csi.UnimplementedControllerServer
	images string
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return answer, nil
}

func (s controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	image, err := imageOf(s.images, request.Name)
	if err != nil {
		return nil, err
	}
	size := max(request.GetCapacityRange().GetRequiredBytes(), least)
	if err := grow(image, size); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	volume := &csi.Volume{VolumeId: request.Name, CapacityBytes: size}
	// The first one is the zone of the node that the scheduler has chosen.
	if wanted := request.GetAccessibilityRequirements().GetPreferred(); len(wanted) > 0 {
		volume.AccessibleTopology = wanted[:1]
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (s controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	image, err := imageOf(s.images, request.VolumeId)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(image); err != nil && !os.IsNotExist(err) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	image, err := imageOf(s.images, request.VolumeId)
	if err != nil {
		return nil, err
	}
	size := request.GetCapacityRange().GetRequiredBytes()
	if err := grow(image, size); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: true}, nil
}

func (controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities},
	}, nil
}

// Path of a volume's image; a name with a slash is none.
func imageOf(folder, volume string) (string, error) {
	if volume == "" || strings.ContainsRune(volume, '/') || strings.HasPrefix(volume, ".") {
		return "", status.Errorf(codes.InvalidArgument, "%q is no name of a volume", volume)
	}
	return filepath.Join(folder, volume+".img"), nil
}

// Make an image at least this large; it uses hardly any space.
func grow(image string, size int64) error {
	file, err := os.OpenFile(image, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil || about.Size() >= size {
		return err
	}
	return file.Truncate(size)
}
