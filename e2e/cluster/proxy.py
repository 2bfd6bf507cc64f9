"""Configuration of kube-proxy, the same on nodes and in the control plane."""

from pathlib import Path

import yaml

from e2e.cluster.layout import POD_RANGE


def proxy_config(name: str, kubeconfig: Path, address: str) -> str:
    """Its configuration file's text."""
    return yaml.safe_dump(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": name,
            "bindAddress": address,
            "clusterCIDR": POD_RANGE,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # Nothing that would change settings of the whole machine.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }
    )
