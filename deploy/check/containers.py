"""The image, the compose example, the chart. No image is built here: that needs a registry and a
daemon."""

import json
import re
import shutil
from pathlib import Path

from trial import DEPLOY, ROOT, TOOLS, Skip, check, folder, go_tool, needs, run, want

HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
# Where the schemas come from: of Kubernetes, and of the resource ServiceMonitor.
KUBERNETES = "k8s.io/kubernetes@v1.34.2"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CHART = DEPLOY / "helm" / "pantala"


@check()
def dockerfile(_server):
    """hadolint has nothing to say of the Dockerfile, and what it copies is there."""
    needs("hadolint")
    run("hadolint", DEPLOY / "docker" / "Dockerfile")
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().split()
    for needed in ("Cargo.toml", "crates", "deploy", "third_party", "LICENSE"):
        want(needed not in ignored, f"the build needs {needed}")
    [toolchain] = re.findall(r"^FROM rust:([\d.]+)-", text, re.M)
    asked = re.search(r'rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text()).group(1)
    want(toolchain == asked, f"it builds with Rust {toolchain}, the workspace asks for {asked}")


@check(long=True)
def compose(_server):
    """The compose example is one, and the files that it names are there."""
    program = go_tool(COMPOSE, "cmd")
    place = DEPLOY / "compose"
    # It reads no variables.
    found = json.loads(run(program, "-no-interpolation", "-format", "json",
                           place / "compose.yaml", cwd=place))
    want(set(found["services"]) == {"pantala", "prometheus", "grafana"}, found["services"].keys())
    for name in ("prometheus.yml", "grafana/provisioning/datasources/prometheus.yaml",
                 "grafana/provisioning/dashboards/pantala.yaml", "../docker/Dockerfile"):
        want((place / name).exists(), f"no file {name}")
    if shutil.which("promtool"):
        run("promtool", "check", "config", "--syntax-only", place / "prometheus.yml")


@check(long=True)
def chart(_server):
    """helm takes the chart; what it renders is what Kubernetes knows; wrong values are refused."""
    helm, kubeconform = go_tool(HELM, "helm"), go_tool(KUBECONFORM, "kubeconform")
    schemas = TOOLS / "schemas"
    write_schemas(schemas)
    judge = [kubeconform, "-strict", "-summary", "-schema-location",
             f"{schemas}/{{{{.ResourceKind}}}}.json"]
    of_version, counts = ["--kube-version", KUBERNETES.split("@")[1]], []
    with folder() as place:
        for values in (None, *sorted((CHART / "ci").glob("*.yaml"))):
            more = [*of_version, *(["--values", values] if values else [])]
            run(helm, "lint", "--strict", CHART, *more)
            rendered = f"{place}/rendered.yaml"
            text = run(helm, "template", "store", CHART, "--namespace", "data", *more)
            with open(rendered, "w") as file:
                file.write(text)
            counts.append(run(*judge, rendered).strip())
            look_at(text, values)
    for wrong in ("config.dir=/x", "service.port=0", "persistence.size=much", "imagine=1",
                  "tls.authClients=maybe"):
        said = run(helm, "template", CHART, *of_version, "--set", wrong, wants=1)
        want("values don't meet the specifications" in said, said)
    resources = sum(int(re.search(r"(\d+) resources? found", text).group(1)) for text in counts)
    return f"{resources} resources"


def look_at(text, values):
    """What a schema cannot say."""
    name = values.stem if values else "default"
    for phrase in {
        "default": ["maxmemory 1gb", "appendonly yes", "path: /readyz", "kind: ServiceAccount"],
        "all": ["maxmemory 1073741824\n", "save 3600 1 300 100\n", 'availability-zone ""\n',
                "tls-auth-clients optional", "scheme: HTTPS", "kind: ServiceMonitor",
                "kind: PodDisruptionBudget", "name: store\n", "containerPort: 11211"],
        "bare": ["password: c2VjcmV0", "emptyDir", "serviceAccountName: default"],
    }[name]:
        want(phrase in text, f"{name}: nothing says {phrase!r}:\n{text}")
    want(("kind: Secret" in text) == (name != "all"), f"{name}: a Secret too many or too few")


def write_schemas(place):
    """One file for each kind of Kubernetes, and one for ServiceMonitor: nothing unknown passes."""
    stamp = place / "of"
    if stamp.exists() and stamp.read_text() == KUBERNETES + OPERATOR:
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    swagger = json.loads((module(KUBERNETES) / "api/openapi-spec/swagger.json").read_text())
    definitions = {name: strict(schema) for name, schema in swagger["definitions"].items()}
    for name, schema in swagger["definitions"].items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if name.startswith("io.k8s.api.") and ".v1." in name:
                whole = {"$ref": f"#/definitions/{name}", "definitions": definitions}
                (place / f"{kind['kind'].lower()}.json").write_text(json.dumps(whole))
    crd = module(OPERATOR) / "jsonnet/prometheus-operator/servicemonitors-crd.json"
    [version] = json.loads(crd.read_text())["spec"]["versions"]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    (place / "servicemonitor.json").write_text(json.dumps(schema))
    stamp.write_text(KUBERNETES + OPERATOR)


def strict(schema):
    """The same without what is unknown; numbers that may be texts are either."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    kept = {name: strict(part) for name, part in schema.items() if name != "properties"}
    if "properties" in schema:
        # Their names are no words of the schema's.
        kept["properties"] = {name: strict(part) for name, part in schema["properties"].items()}
        kept.setdefault("additionalProperties",
                        bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    return kept


def module(name):
    """The folder of a Go module, from the proxy."""
    needs("go")
    with folder() as place:
        found = json.loads(run("go", "mod", "download", "-json", name, cwd=place))
    if "Dir" not in found:
        raise Skip(f"{name} cannot be had")
    return Path(found["Dir"])
