# Imports /data/animals.csv (docs/scripting.md). The volume keeps which rows were added, and when a rate limit ends.
FROM node:24-slim
COPY pets-cli-*.tgz /tmp/
RUN npm install --global /tmp/pets-cli-*.tgz
RUN mkdir /state && chown node /state
ENV PETS_STATE_DIR=/state/pets
VOLUME /state
USER node
CMD ["pets", "import", "/data/animals.csv", "--json"]
