# One image for each set of parts that can share an interpreter: EXTRAS names the set.
FROM python:3.11-slim-bookworm
ARG EXTRAS=stack
WORKDIR /planloop
COPY . .
RUN pip install --no-cache-dir ".[${EXTRAS}]" && useradd --create-home planloop \
  && mkdir /state && chown planloop /state
USER planloop
ENTRYPOINT ["planloop"]
CMD ["process", "--follow"]
