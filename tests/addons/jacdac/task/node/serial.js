// serial.js PATH: reads registers of the device over JDUSB on a serial port, by jacdac-ts and serialport.
const { SerialPort } = require("serialport")
const { get, main, until } = require("./connect.js")

console.debug = console.error // the transport tells there what it finds

// A pseudo-terminal is no USB device, so that serialport does not list it.
class Port extends SerialPort {
    static async list() {
        return [{ path: process.argv[2], serialNumber: "JD0001", vendorId: "", productId: "" }]
    }
}

main(async () => {
    const j = require("jacdac-ts")
    const bus = new j.JDBus([j.createNodeWebSerialTransport(Port)], { client: true, disableRoleManager: true })
    await bus.connect()
    const service = await until(() => bus.services({ serviceClass: j.SRV_MODEL_RUNNER })[0], "service")
    await service.register(j.ModelRunnerReg.AutoInvokeEvery).sendSetAsync(j.jdpack("u16", [0xfefd]), true)
    return {
        format: Buffer.from(await get(service, j.ModelRunnerReg.Format)).toString(),
        error: Buffer.from(await get(service, j.ModelRunnerReg.LastError)).toString(),
        every: Buffer.from(await get(service, j.ModelRunnerReg.AutoInvokeEvery)).readUInt16LE(),
    }
})
