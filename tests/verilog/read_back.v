// Reads vector files of `mrc vectors` with $readmemh, walks their records and checks every frame: the ICRC from its definition, and
// the fields a device would steer by. Prints one line per frame, action and file; the test compares them. Ends with a failure
// ($fatal) when a file cannot be read, is empty or does not end as it should, or when a trailer is not what its record says.
//
// iverilog -g2012 -P read_back.BEAT=64 -o read_back read_back.v    words of 64 bytes; 1 without -P
// vvp -n read_back +file=traces/sack/gap.hex                       one file
// vvp -n read_back +list=files.txt                                 files named one per line
`timescale 1ns / 1ps

module read_back;
    // Bytes of a word, as in `mrc vectors --beat`.
    parameter BEAT = 1;
    localparam DEPTH = (1 << 17) / BEAT + 4096;
    reg [8 * BEAT - 1:0] words [0:DEPTH - 1];
    reg [8 * 512 - 1:0] file;
    reg [31:0] crc;
    reg [7:0] kind, port, declared;
    reg [15:0] len, ethertype;
    reg [63:0] at_ns;
    reg [23:0] psn;
    reg [7:0] opcode, next, masked;
    reg v6, found, good;
    integer list, handle, base, frame, l3, udp, n, used, files, frames, actions, good_frames, wrong, failures;

    // Byte `at` of the file, from the lowest lane of its first word on.
    function [7:0] mem(input integer at);
        mem = words[at / BEAT][8 * (at % BEAT) +: 8];
    endfunction

    // Heads and frames are filled up to whole words.
    function integer whole(input integer bytes);
        whole = (bytes + BEAT - 1) / BEAT * BEAT;
    endfunction

    // One byte into the reflected CRC-32 of polynomial 0x04C11DB7.
    function [31:0] step(input [31:0] state, input [7:0] value);
        integer n;
        begin
            step = state ^ {24'b0, value};
            for (n = 0; n < 8; n = n + 1)
                step = step[0] ? (step >> 1) ^ 32'hEDB88320 : step >> 1;
        end
    endfunction

    // Finds the IP header in front of UDP.
    task find_l3;
        begin
            found = 0;
            l3 = frame + 14;
            ethertype = {mem(frame + 12), mem(frame + 13)};
            if (ethertype == 16'h8100) begin
                l3 = frame + 18;
                ethertype = {mem(frame + 16), mem(frame + 17)};
            end
            v6 = ethertype == 16'h86DD;
            if (v6) begin
                next = mem(l3 + 6);
                if (next == 43) begin
                    l3 = l3 + 64;
                    next = mem(l3 + 6);
                end else if (next == 41) begin
                    l3 = l3 + 40;
                    next = mem(l3 + 6);
                end
                found = next == 17;
                udp = l3 + 40;
            end else if (ethertype == 16'h0800) begin
                found = mem(l3 + 9) == 17;
                udp = l3 + 4 * (mem(l3) & 15);
            end
        end
    endtask

    // The trailer of the frame, with what may change on the way replaced by ones.
    task check_icrc;
        begin
            crc = 32'hFFFFFFFF;
            for (n = 0; n < 8; n = n + 1) crc = step(crc, 8'hFF);
            for (n = l3; n < frame + len - 4; n = n + 1) begin
                masked = mem(n);
                if (v6) begin
                    if (n == l3) masked = masked | 8'h0F;
                    if (n > l3 && n < l3 + 4 || n == l3 + 7) masked = 8'hFF;
                end else if (n == l3 + 1 || n == l3 + 8 || n == l3 + 10 || n == l3 + 11) masked = 8'hFF;
                if (n == udp + 6 || n == udp + 7 || n == udp + 12) masked = 8'hFF;
                crc = step(crc, masked);
            end
            crc = ~crc;
            // Least significant byte first.
            good = {mem(frame + len - 1), mem(frame + len - 2), mem(frame + len - 3), mem(frame + len - 4)} == crc;
        end
    endtask

    // One line per frame: direction, time, bytes, opcode, PSN, whether the trailer is right. One per action: 3, time, code, number.
    task walk;
        begin
            // Nothing of the file before may stand for what this one lacks.
            for (n = 0; n < used; n = n + 1) words[n] = {8 * BEAT{1'bx}};
            frames = 0;
            actions = 0;
            good_frames = 0;
            wrong = 0;
            base = 0;
            handle = $fopen(file, "r");
            if (handle == 0) begin
                $display("%0s: cannot be opened", file);
                wrong = 1;
            end else begin
                $fclose(handle);
                $readmemh(file, words);
            end
            while (mem(base) === 8'h01 || mem(base) === 8'h02 || mem(base) === 8'h03) begin
                kind = mem(base);
                port = mem(base + 1);
                len = {mem(base + 2), mem(base + 3)};
                at_ns = {mem(base + 4), mem(base + 5), mem(base + 6), mem(base + 7),
                         mem(base + 8), mem(base + 9), mem(base + 10), mem(base + 11)};
                declared = mem(base + 12);
                frame = base + whole(16);
                if (kind == 3) begin
                    $display("3 %0d %0d %0d", at_ns, port, {mem(frame), mem(frame + 1), mem(frame + 2), mem(frame + 3),
                             mem(frame + 4), mem(frame + 5), mem(frame + 6), mem(frame + 7)});
                    actions = actions + 1;
                    if (port == 0 || len != 40) wrong = wrong + 1;
                end else begin
                    find_l3;
                    good = 0;
                    opcode = 0;
                    psn = 0;
                    if (found && len >= udp - frame + 8 + 12) begin
                        opcode = mem(udp + 8);
                        psn = {mem(udp + 17), mem(udp + 18), mem(udp + 19)};
                        check_icrc;
                    end
                    $display("%0d %0d %0d %h %0d %0d", kind, at_ns, len, opcode, psn, good);
                    frames = frames + 1;
                    if (good) good_frames = good_frames + 1;
                    if (good !== declared[0] || port == 0) wrong = wrong + 1;
                end
                base = frame + whole(len);
            end
            // A file ends with its mark, and holds something before it.
            if (mem(base) !== 8'hFF || base == 0) wrong = wrong + 1;
            used = base / BEAT + 16;
            if (used > DEPTH) used = DEPTH;
            files = files + 1;
            if (wrong != 0) failures = failures + 1;
            $display("frames %0d good %0d actions %0d wrong %0d", frames, good_frames, actions, wrong);
        end
    endtask

    initial begin
        used = 0;
        files = 0;
        failures = 0;
        if ($value$plusargs("file=%s", file)) walk;
        else if ($value$plusargs("list=%s", file)) begin
            list = $fopen(file, "r");
            if (list == 0) $display("%0s: cannot be opened", file);
            else begin
                while ($fscanf(list, "%s", file) == 1) walk;
                $fclose(list);
            end
        end else $display("name a file: +file=packets.hex");
        if (files == 0 || failures != 0) $fatal(1, "%0d of %0d files are wrong", failures, files);
        $finish;
    end
endmodule
