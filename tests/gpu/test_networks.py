# SPDX-License-Identifier: MIT
"""Compares the definitions in scripts/gen_networks.py with the totals that others published."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import gen_networks  # noqa: E402

# Trainable parameters. "torchvision" means num_params in torchvision's metadata of the weights.
# Inception's list of layers leaves out the auxiliary classifier, so its 3 326 696 parameters are
# subtracted.
PARAMETERS = {
    "resnext50": 25_028_904,  # torchvision
    "resnext101": 83_455_272,  # torchvision
    "regnety-16gf": 83_590_140,  # torchvision
    "efficientnetv2-s": 21_458_488,  # torchvision
    "convnext-b": 88_591_464,  # torchvision
    "mobilenetv3-l": 5_483_032,  # torchvision
    "inception-v3": 27_161_264 - 3_326_696,  # torchvision
    "deeplabv3": 42_004_074,  # torchvision
    "r3d-18": 33_371_472,  # torchvision
    "yolov8-m": 25_902_640,  # Ultralytics' summary of yolov8m.yaml
    "sdxl-unet": 2_567_463_684,  # diffusers, UNet2DConditionModel of SDXL 1.0
    "sdxl-vae": 83_653_863,  # diffusers, AutoencoderKL of SDXL 1.0
    "dcgan": 3_576_704 + 2_765_568,  # PyTorch's tutorial: generator and discriminator
}
# Millions of parameters, where no exact number was published.
MILLIONS = {
    "slowfast": 34.57,  # PyTorchVideo's model zoo, SLOWFAST_8x8_R50
    "nnunet-3d": 31.2,  # comparisons on BraTS give 31.2 million for nnU-Net
    "unet": 31.03,  # the usual count of U-Net with biases and no normalisation
}
# Number of convolutions, including transposed ones, as the papers count them.
CONVOLUTIONS = {
    "resnext50": 1 + 16 * 3 + 4,  # a stem, 16 blocks of three, and 4 shortcuts
    "resnext101": 1 + 33 * 3 + 4,
    "convnext-b": 4 + 36,  # a depthwise convolution in each of 36 blocks
    "unet": 23,  # Ronneberger et al. 2015: "in total the network has 23 convolutional layers"
    "r3d-18": 17 + 3,  # 17 convolutions and a classifier make 18 layers; there are three shortcuts
    "dcgan": 5 + 5,  # Radford et al. 2016, figure 1
}


def shapes(text):
    """Returns the distinct problems of a list, without directions and iterations."""
    return {re.sub(r" (-i|-t) \d+", "", line) for line in text.splitlines()
            if line.startswith("conv")}


class Networks(unittest.TestCase):
    def built(self, name):
        return gen_networks.built(gen_networks.NETWORKS[name][2])

    def test_parameters_are_those_that_were_published(self):
        for name, expected in PARAMETERS.items():
            with self.subTest(name):
                self.assertEqual(self.built(name).parameters, expected)
        for name, expected in MILLIONS.items():
            with self.subTest(name):
                digits = len(str(expected).split(".")[1])
                self.assertEqual(round(self.built(name).parameters / 1e6, digits), expected)

    def test_convolutions_are_as_many_as_were_published(self):
        for name, expected in CONVOLUTIONS.items():
            with self.subTest(name):
                self.assertEqual(len(self.built(name).convs), expected)

    def test_every_network_but_the_patches_has_a_published_total(self):
        self.assertEqual(set(gen_networks.NETWORKS) - set(PARAMETERS) - set(MILLIONS), {"patches"})

    def test_the_patch_layer_of_vit_b_has_the_published_parameters(self):
        network = gen_networks.Network()
        network.conv((3, 224, 224), 768, 16, 16, pad=0, bias=True, norm=False)
        self.assertEqual(network.parameters, 590_592)  # timm, vit_base_patch16_224
        self.assertIn(network.convs[0].key(), {c.key() for c in self.built("patches").convs})

    def test_resnet50_is_the_list_written_by_hand(self):
        network = gen_networks.built(gen_networks.resnet50)
        self.assertEqual(network.parameters, 25_557_032)  # torchvision
        made = {c.line(d) for c, _ in network.distinct() for d in (1, 2, 4)}
        by_hand = (ROOT / "scripts/networks/resnet50.txt").read_text()
        self.assertEqual(shapes("\n".join(made)), shapes(by_hand))
        forward = (ROOT / "scripts/networks/resnet50-forward.txt").read_text()
        self.assertEqual(len(network.convs), forward.count("\nconv "))

    def test_the_lists_have_every_kind_of_convolution(self):
        convs = [c for name in gen_networks.NETWORKS for c in self.built(name).convs]
        for kind, is_one in {
                "grouped": lambda c: 1 < c.groups < c.c, "depthwise": lambda c: 1 < c.groups == c.c,
                "dilated": lambda c: max(c.dilation) > 1, "transposed": lambda c: c.transposed,
                "3-D": lambda c: len(c.image) == 3,
                "transposed 3-D": lambda c: c.transposed and len(c.image) == 3,
                "asymmetric": lambda c: len(set(c.kernel)) > 1}.items():
            with self.subTest(kind):
                self.assertTrue(any(map(is_one, convs)))

    def test_a_list_names_each_shape_once_for_each_direction(self):
        lines = [line for line in gen_networks.text_of("slowfast").splitlines()
                 if line.startswith("conv")]
        self.assertEqual(len(lines), 3 * len(self.built("slowfast").distinct()))
        self.assertEqual(len(lines), len(set(lines)))


if __name__ == "__main__":
    unittest.main()
