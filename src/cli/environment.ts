/** The environment variables that the program reads, as `pets help environment` prints them. */
export const environmentVariables: readonly (readonly [name: string, meaning: string])[] = [
  ['PETS_PROFILE', 'the profile, where --profile does not say it: prod, staging or local'],
  ['PETS_API_KEY', "the key; it goes to PETS_BASE_URL, else to the profile's base URL"],
  ['PETS_BASE_URL', "the service's address, with /v1"],
  ['PETS_MAX_WAIT', 'as --max-wait: seconds'],
  ['PETS_ALLOW_HTTP', '1 allows plain http to another machine'],
  ['PETS_CONFIG_DIR', 'where profiles are kept'],
  ['XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME', 'where the directories are that programs share'],
  [
    'HTTP_PROXY, HTTPS_PROXY, NO_PROXY',
    'proxies (in lower case too); this machine is never reached through one',
  ],
  ['NODE_EXTRA_CA_CERTS', 'a file of certificates to trust besides the usual ones'],
  ['NO_COLOR, FORCE_COLOR', 'no colours, or colours off a terminal too; --color is stronger'],
];
