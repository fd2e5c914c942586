# The teach page and the command. docs/install.md says how to build and run it.
FROM python:3.13-slim

WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir ".[all]" \
    && useradd --create-home midfea \
    && install -d -o midfea /data

# Compiled loops are kept here, also where another user is chosen by --user.
ENV NUMBA_CACHE_DIR=/tmp/numba
USER midfea
WORKDIR /data
VOLUME /data
EXPOSE 8765

# Without its token the page answers 401: then it is there.
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import http.client as http; page = http.HTTPConnection('127.0.0.1', 8765, timeout=5); page.request('GET', '/'); exit(page.getresponse().status != 401)"]
ENTRYPOINT ["midfea"]
CMD ["serve", "--host", "0.0.0.0", "--workspace", "/data"]
