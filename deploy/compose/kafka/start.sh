#!/usr/bin/env bash
# Starts the broker as the image does, also where its storage is formatted already: not every build
# of the image lets that pass.
set -euo pipefail

if [ -e "$KAFKA_LOG_DIRS/meta.properties" ]; then
    # Writes the settings from KAFKA_*, and then will not format again.
    /opt/kafka/bin/kafka-run-class.sh kafka.docker.KafkaDockerWrapper setup \
        --default-configs-dir /etc/kafka/docker --mounted-configs-dir /mnt/shared/config \
        --final-configs-dir /opt/kafka/config || true
    exec /opt/kafka/bin/kafka-server-start.sh /opt/kafka/config/server.properties
fi
exec /etc/kafka/docker/run
