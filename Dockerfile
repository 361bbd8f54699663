# syntax=docker/dockerfile:1
# Two images: `docker build --target cpu -t wordbound:cpu .` and `docker build --target gpu -t wordbound:gpu .`
# compose.yaml starts either. No key and no model is in them: keys come as files in /run/secrets, models into a volume.
ARG PYTHON_VERSION=3.12

# What both need at run time. Versions are Debian 12's up to their last part, which security updates move.
FROM python:${PYTHON_VERSION}-slim-bookworm AS base
# A compiler: Triton and torch build kernels while they run. libnuma: vLLM's kernels for CPUs are linked with it. wget: KubeRay
# asks a pod of Ray's with it whether it works.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        g++=4:12.2.* \
        gcc=4:12.2.* \
        libc6-dev=2.36-* \
        libnuma1=2.0.16-* \
        wget=1.21.* \
    && rm -rf /var/lib/apt/lists/*
# Folders that become volumes keep this owner. /run/secrets may stay empty: then keys come from the environment.
RUN groupadd --gid 10001 wordbound \
    && useradd --uid 10001 --gid wordbound --create-home --shell /usr/sbin/nologin wordbound \
    && install -d -o wordbound -g wordbound \
        /home/wordbound/.cache /home/wordbound/.cache/huggingface /home/wordbound/.cache/wordbound \
        /var/lib/wordbound \
    && install -d /run/secrets
# Where KubeRay starts Ray by a login shell, Debian's profile would forget the path that is set below.
RUN echo "PATH=/opt/wordbound/bin:\$PATH" > /etc/profile.d/wordbound.sh
# hadolint ignore=DL3064  # folders and files, not what is in them
ENV PATH=/opt/wordbound/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    # The folder of the package is not this user's: numba keeps the machine code of its kernels here.
    NUMBA_CACHE_DIR=/home/wordbound/.cache/wordbound/numba \
    HF_HOME=/home/wordbound/.cache/huggingface \
    # Batches and their files: the one folder that cannot be made again.
    WORDBOUND_STATE=/var/lib/wordbound \
    # Where the huggingface_hub library looks for a token; there need be none.
    HF_TOKEN_PATH=/run/secrets/HF_TOKEN \
    SECRETS_DIR=/run/secrets

# The package, in a virtual environment that is copied whole; neither pip's cache nor the sources stay in an image.
FROM base AS sources
WORKDIR /src
RUN python -m venv /opt/wordbound
# Git's history, of which setuptools-scm would read the version, is not in the context; `make image` names it.
ARG VERSION
ENV SETUPTOOLS_SCM_PRETEND_VERSION_FOR_WORDBOUND=${VERSION}
COPY pyproject.toml README.md LICENSE NOTICE constraints-cpu.txt constraints-gpu.txt ./
COPY locks locks
COPY vocab vocab
COPY configs configs
# These have links to a configuration and to both constraints.
COPY deployments deployments
COPY wordbound wordbound

FROM sources AS cpu-packages
ARG TORCH_VERSION=2.13.0
# PyTorch's own index of builds for CPUs; that of PyPI brings CUDA's libraries, some gigabytes.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --extra-index-url "${TORCH_INDEX}" "torch==${TORCH_VERSION}+cpu"
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --require-hashes -r locks/cpu.txt \
    && pip install --no-deps .

FROM sources AS gpu-packages
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --no-deps --require-hashes -r locks/gpu.txt \
    && pip install --no-deps .

# What `serve run` would start here, and how a container is asked whether it works.
FROM base AS service
WORKDIR /srv/wordbound
COPY LICENSE NOTICE ./
COPY serve_config.yaml ./
COPY configs configs
USER 10001:10001
EXPOSE 8000
# The process: whether requests can be sent is /ready, which is 503 while a model is loaded (compose.yaml asks that).
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# Lets running requests end after SIGTERM or SIGINT, unlike `serve run`.
ENTRYPOINT ["python", "-m", "deployments.serving"]

FROM service AS cpu
COPY --from=cpu-packages /opt/wordbound /opt/wordbound
CMD ["configs/one-cpu.yaml"]

FROM service AS gpu
COPY --from=gpu-packages /opt/wordbound /opt/wordbound
# FlashInfer's sampler would be compiled at the first request that has a top_p, by a CUDA compiler that is not on the path
# here: vLLM's own takes its place.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    VLLM_USE_FLASHINFER_SAMPLER=0
CMD ["configs/one-gpu.yaml"]
