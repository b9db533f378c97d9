import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A temporary directory and the processes that use it. `close` ends the processes and deletes the directory. */
export class Lab {
  readonly directory = mkdtempSync(join(tmpdir(), 'pets-bench-'));
  /** The default environment of processes, without the user's settings. TMPDIR puts all servers on one file system. */
  readonly env: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    HOME: this.directory,
    TMPDIR: this.directory,
    PETS_CONFIG_DIR: this.path('config'),
  };
  readonly #children = new Set<ChildProcess>();
  #isClosed = false;

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  spawn(command: readonly string[], options: SpawnOptions): ChildProcess {
    // A measurement that is still running after `close()` must not start another process.
    if (this.#isClosed) throw new Error('the measurement was stopped');
    const [file = '', ...args] = command;
    const child = spawn(file, args, { env: this.env, ...options });
    this.#children.add(child);
    child.once('close', () => this.#children.delete(child));
    child.once('error', () => this.#children.delete(child));
    return child;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(
      [...this.#children].map((child) => {
        const ended = once(child, 'close');
        child.kill('SIGKILL');
        return ended;
      }),
    );
    rmSync(this.directory, { recursive: true, force: true });
  }
}
