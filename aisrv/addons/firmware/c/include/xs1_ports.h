/* The ports and clock blocks of a tile: width, number and kind of each in its id. */
#ifndef AISRV_XS1_PORTS_H
#define AISRV_XS1_PORTS_H

#define XS1_PORT_1A 0x10200
#define XS1_PORT_1B 0x10000
#define XS1_PORT_1C 0x10100
#define XS1_PORT_1D 0x10300
#define XS1_PORT_1E 0x10600
#define XS1_PORT_1F 0x10400
#define XS1_PORT_1G 0x10500
#define XS1_PORT_1H 0x10700
#define XS1_PORT_1I 0x10a00
#define XS1_PORT_1J 0x10800
#define XS1_PORT_1K 0x10900
#define XS1_PORT_1L 0x10b00
#define XS1_PORT_1M 0x10c00
#define XS1_PORT_1N 0x10d00
#define XS1_PORT_1O 0x10e00
#define XS1_PORT_1P 0x10f00
#define XS1_PORT_4A 0x40000
#define XS1_PORT_4B 0x40100
#define XS1_PORT_4C 0x40200
#define XS1_PORT_4D 0x40300
#define XS1_PORT_4E 0x40400
#define XS1_PORT_4F 0x40500
#define XS1_PORT_8A 0x80000
#define XS1_PORT_8B 0x80100
#define XS1_PORT_8C 0x80200
#define XS1_PORT_8D 0x80300
#define XS1_PORT_16A 0x100000
#define XS1_PORT_16B 0x100100
#define XS1_PORT_32A 0x200000

#define XS1_CLKBLK_REF 0x6
#define XS1_CLKBLK_1 0x106
#define XS1_CLKBLK_2 0x206
#define XS1_CLKBLK_3 0x306
#define XS1_CLKBLK_4 0x406
#define XS1_CLKBLK_5 0x506

/* Words of `port_write_control_word`: how a port drives its pins. */
#define XS1_SETC_DRIVE_DRIVE 0x3
#define XS1_SETC_DRIVE_PULL_DOWN 0xb
#define XS1_SETC_DRIVE_PULL_UP 0x13

#endif
