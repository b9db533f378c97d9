/** Keeps a directory for one server. */
export interface Lock {
  /** Tells servers that are refused where this one is. */
  announce(url: string): void;
  release(): Promise<void>;
}

export async function acquireLock(_directory: string): Promise<Lock> {
  return { announce: () => {}, release: async () => {} };
}
