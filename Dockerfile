# syncheck with simulated GPUs and the linter:
#   docker build -t syncheck .
#   docker run --rm -v "$PWD:/work" syncheck lint
#   docker run --rm -v "$PWD:/work" syncheck run --backend sim train.py
# To use the GPUs of the machine, start from your program's image: FROM pytorch/pytorch, RUN pip install syncheck.
FROM python:3.12-slim
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu --extra-index-url https://pypi.org/simple torch numpy
COPY pyproject.toml README.md LICENSE /src/
COPY syncheck /src/syncheck
COPY fixtures /src/fixtures
RUN pip install --no-cache-dir '/src[html]' && rm -r /src
WORKDIR /work
ENTRYPOINT ["syncheck"]
CMD ["--help"]
