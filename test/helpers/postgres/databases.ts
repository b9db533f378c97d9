import { randomUUID } from 'node:crypto';
import { Client, type QueryResult } from 'pg';

/** The superuser that initdb creates. Three connections are reserved for superusers. */
export const SUPERUSER = 'postgres';

/** The role that tests use by default. It needs no password. */
export const USER = 'pets';

/** A role that needs a password. */
export const USER_WITH_PASSWORD = 'pets_with_password';
export const PASSWORD = 'correct horse/battery:staple@';

export type Databases = ReturnType<typeof databasesAt>;

/** The databases of the server that listens on this port of 127.0.0.1. */
export function databasesAt(port: number) {
  const url = (database: string, user = USER) => `postgres://${user}@127.0.0.1:${port}/${database}`;
  const sql = (database: string, text: string) => runSql(url(database, SUPERUSER), text);
  async function emptyDatabase(url: string): Promise<void> {
    const name = new URL(url).pathname.slice(1);
    // Without this search_path, a function that a hostile test has created could be called.
    await sql(
      name,
      `set search_path = pg_catalog;
      alter database ${name} reset all; grant create on database ${name} to public;
      select pg_terminate_backend(pid, 10000) from pg_stat_activity
        where datname = '${name}' and pid <> pg_backend_pid();
      do $$ declare schema text; begin
        for schema in select nspname from pg_namespace where nspname !~ '^(pg_|information_schema$)' loop
          execute format('drop schema %I cascade', schema);
        end loop;
      end $$;
      create schema public authorization pg_database_owner; grant usage on schema public to public`,
    );
  }
  return {
    port,
    /** The URL of a database for a role, by default `USER`. */
    url,
    /** Runs statements as a superuser, even if transactions are read-only by default. Returns the rows of the last. */
    sql,
    /** Creates a database in which every role may create schemas. Returns the URL. */
    async createDatabase(): Promise<string> {
      const name = `test_${randomUUID().replaceAll('-', '')}`;
      // CREATE DATABASE cannot run in one transaction with another statement.
      await sql('postgres', `create database ${name}`);
      await emptyDatabase(url(name));
      return url(name);
    },
    /**
     * Removes all schemas of the database of this URL and its settings, and ends its connections. A test that changes
     * anything else, such as a role, needs a server of its own.
     */
    emptyDatabase,
  };
}

async function runSql(connectionString: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString, options: '-c default_transaction_read_only=off' });
  // If the server ends the connection, the query rejects too, so the event needs no handling.
  client.on('error', () => {});
  try {
    await client.connect();
    const results: QueryResult | QueryResult[] = await client.query(text);
    return [results].flat().at(-1)?.rows ?? [];
  } finally {
    await client.end();
  }
}
