/**
 * The clock of the leases, in milliseconds. It never goes back and, on Linux,
 * counts the time for which the machine sleeps.
 *
 * Node's own clock stops during a sleep on Linux (CLOCK_MONOTONIC). The uptime
 * of the system does not (CLOCK_BOOTTIME), but it is coarse. The clock is
 * Node's, moved forward by the largest lead of the uptime seen so far. A sleep
 * appears as a jump of that lead. On macOS and Windows, Node's clock counts
 * sleep by itself. Elsewhere the system decides. A machine that is paused
 * together with all its clocks is not detected, here or in any client.
 */
export declare class Clock {
    #private;
    /**
     * @param {() => number} [mono] a fine clock, in milliseconds
     * @param {(() => number) | null} [boot] a coarse clock that counts sleep, if the fine one does not
     */
    constructor(mono?: () => number, boot?: (() => number) | null);
    /**
     * How far `now` may lag after a sleep: the resolution of the coarse clock. It
     * is 10 ms, and a second where the system rounds, as some containers do.
     */
    get grain(): 0 | 10 | 1000;
    /** The present time. Leases end by it. */
    now(): number;
    /** A time that is certainly not after the present. Leases begin by it. */
    before(): number;
}
