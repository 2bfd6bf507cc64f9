// The CSI driver of the testbed: each volume is an image with a file system, in one folder that all nodes can reach. Like a disk of a
// cloud, a volume belongs to one zone and is mounted on one of its nodes at a time. The same program is the controller (creates, deletes and enlarges images) and the node service (mounts them).
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type identity struct {
	csi.UnimplementedIdentityServer
	name string
}

func (s identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.name, VendorVersion: "1"}, nil
}

func (identity) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE},
	}}
	online := &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}}
	zonal := &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
		Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
	}}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{service, online, zonal}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// What the kubelet asks at the socket in its folder of plugins.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, socket string
}

func (s registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: s.name, Endpoint: s.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (s registrar) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Fatalf("the kubelet refuses the driver: %s", status.Error)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func serve(socket string, register func(*grpc.Server)) {
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	register(server)
	log.Fatal(server.Serve(listener))
}

func logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	if err != nil {
		log.Printf("%s %v: %v", info.FullMethod, request, err)
	}
	return answer, err
}

func main() {
	name := flag.String("name", "volumes.testbed", "name of the driver")
	socket := flag.String("socket", "", "where to serve CSI")
	images := flag.String("images", "", "folder of the images")
	served := flag.String("served", "", "the same folder, through the program that can make images fail; the images are mounted from it")
	node := flag.String("node", "", "name of this node; empty for the controller")
	zone := flag.String("zone", "", "zone of this node")
	plugins := flag.String("registration", "", "folder in which the kubelet looks for plugins")
	flag.Parse()
	if *node != "" {
		go serve(*plugins+"/"+*name+"-reg.sock", func(server *grpc.Server) {
			registration.RegisterRegistrationServer(server, registrar{name: *name, socket: *socket})
		})
	}
	serve(*socket, func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, identity{name: *name})
		if *node == "" {
			csi.RegisterControllerServer(server, controller{images: *images})
		} else {
			csi.RegisterNodeServer(server, &mounter{node: *node, zone: *zone, images: *images, served: *served, held: map[string]*os.File{}})
		}
	})
}
