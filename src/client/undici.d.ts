// The package's entry loads all of undici, which takes longer than a whole command. Its parts have no types of their own.
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}
