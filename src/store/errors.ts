/** The store cannot be opened or used as it stands. `hint` says what to do about it. */
export class StoreError extends Error {
  readonly hint: string;

  constructor(message: string, hint: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.hint = hint;
  }
}

/** Another server has the directory open. `pid` and `url` are that server's, where it told them. */
export class StoreInUseError extends StoreError {
  readonly pid: number | undefined;
  readonly url: string | undefined;

  constructor(directory: string, owner: { pid?: number | undefined; url?: string | undefined }) {
    const who = [owner.pid && `pid ${owner.pid}`, owner.url && `at ${owner.url}`].filter(Boolean).join(' ');
    super(
      `${directory} is in use by another server${who && ` (${who})`}`,
      'use that server, stop it, or choose another directory with --data',
    );
    this.pid = owner.pid;
    this.url = owner.url;
  }
}

/** The journal is damaged before its end: opening it would lose what follows. */
export class StoreDamagedError extends StoreError {}

/** A write or a sync failed: what was acknowledged is safe, and nothing more is accepted. */
export class StoreFailedError extends StoreError {}

/** Only an empty store can be seeded. */
export class StoreNotEmptyError extends StoreError {}
