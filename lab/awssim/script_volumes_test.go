package awssim_test

import "github.com/transplant-dev/transplant/lab/awssim"

// volumesScript goes through the life of volumes, and leaves the instances as it found them: the first and the third are in us-east-1a, the second in
// us-east-1b.
func volumesScript() []step {
	const made = `"AvailabilityZone":"us-east-1a","Size":4,"VolumeType":"gp3","Encrypted":false,"MultiAttachEnabled":false,` +
		`"TagSpecifications":[{"ResourceType":"volume","Tags":[{"Key":"CSIVolumeName","Value":"pvc-1"}]}]`
	return []step{
		{action: "CreateVolume", in: `{"ClientToken":"one",` + made + `}`, save: map[string]string{"vol": "VolumeId"}, want: map[string]string{
			"Size": "4", "State": "creating", "AvailabilityZone": "us-east-1a", "VolumeType": "gp3", "Iops": "3000", "Tags.0.Value": "pvc-1"}},
		{action: "CreateVolume", in: `{"ClientToken":"one",` + made + `}`, want: map[string]string{"VolumeId": "${vol}", "State": "available"}},
		{action: "CreateVolume", in: `{"ClientToken":"one","AvailabilityZone":"us-east-1a","Size":5}`, code: "IdempotentParameterMismatch"},
		{action: "CreateVolume", in: `{"AvailabilityZone":"us-east-1z","Size":4}`, code: "InvalidZone.NotFound"},
		{action: "CreateVolume", in: `{"AvailabilityZone":"us-east-1a"}`, code: "MissingParameter"},
		{action: "CreateVolume", in: `{"AvailabilityZone":"us-east-1a","Size":4,"VolumeType":"gp9"}`, code: "InvalidParameterValue"},
		{action: "CreateVolume", in: `{"AvailabilityZone":"us-east-1a","Size":4,"TagSpecifications":[{"ResourceType":"snapshot","Tags":[{"Key":"a","Value":"b"}]}]}`,
			code: "InvalidParameterValue"},
		{
			action: "DescribeVolumes",
			in:     `{"VolumeIds":["${vol}"]}`,
			want:   map[string]string{"Volumes.#": "1", "Volumes.0.State": "available", "Volumes.0.Attachments.#": "0"},
		},
		{action: "DescribeVolumes", in: `{"Filters":[{"Name":"tag:CSIVolumeName","Values":["pvc-1"]}]}`, want: map[string]string{"Volumes.0.VolumeId": "${vol}"}},
		{action: "DescribeVolumes", in: `{"VolumeIds":["vol-0123456789abcdef0"]}`, code: "InvalidVolume.NotFound"},
		{action: "DescribeVolumes", in: `{"VolumeIds":["disk"]}`, code: "InvalidParameterValue"},
		{action: "DescribeVolumes", in: `{"VolumeIds":["${vol}"],"MaxResults":5}`, code: "InvalidParameterCombination"},
		{action: "DescribeVolumes", in: `{"MaxResults":5,"NextToken":"stale"}`, code: "InvalidNextToken"},

		{
			action: "AttachVolume",
			in:     `{"VolumeId":"${vol}","InstanceId":"${first}","Device":"/dev/xvdaa"}`,
			want:   map[string]string{"State": "attaching", "Device": "/dev/xvdaa"},
		},
		{action: "DescribeVolumes", in: `{"Filters":[{"Name":"attachment.instance-id","Values":["${first}"]}]}`, want: map[string]string{
			"Volumes.0.State": "in-use", "Volumes.0.Attachments.0.State": "attached", "Volumes.0.Attachments.0.InstanceId": first}},
		{action: "DescribeInstances", in: `{"InstanceIds":["${first}"]}`, want: map[string]string{
			"Reservations.0.Instances.0.BlockDeviceMappings.0.DeviceName": "/dev/xvdaa", "Reservations.0.Instances.0.BlockDeviceMappings.0.Ebs.VolumeId": "${vol}"}},
		{action: "AttachVolume", in: `{"VolumeId":"${vol}","InstanceId":"${first}","Device":"/dev/xvdab"}`, code: "VolumeInUse"},
		{action: "DeleteVolume", in: `{"VolumeId":"${vol}"}`, code: "VolumeInUse"},
		{
			action: "CreateVolume",
			in:     `{"AvailabilityZone":"us-east-1a","Size":1}`,
			save:   map[string]string{"other": "VolumeId"},
			want:   map[string]string{"VolumeType": "gp2"},
		},
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"${first}","Device":"/dev/xvdaa"}`, code: "InvalidParameterValue"},
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"${second}","Device":"/dev/xvdaa"}`, code: "InvalidVolume.ZoneMismatch"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "shutting-down") }},
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"${third}","Device":"/dev/xvdaa"}`, code: "IncorrectState"},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "running") }},
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"${nobody}","Device":"/dev/xvdaa"}`, code: "InvalidInstanceID.NotFound"},
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"i-KWOK","Device":"/dev/xvdaa"}`, code: "InvalidInstanceID.Malformed"},
		{action: "AttachVolume", raw: map[string]string{"VolumeId": "vol-0123456789abcdef0"}, code: "InvalidVolume.NotFound"},
		{action: "AttachVolume", raw: map[string]string{"InstanceId": first}, code: "MissingParameter"},

		{action: "DetachVolume", in: `{"VolumeId":"${vol}","InstanceId":"${second}"}`, code: "InvalidAttachment.NotFound"},
		{action: "DetachVolume", in: `{"VolumeId":"${vol}","InstanceId":"${first}"}`, want: map[string]string{"State": "detaching"}},
		{action: "DetachVolume", in: `{"VolumeId":"${vol}","InstanceId":"${first}"}`, code: "IncorrectState"},
		{action: "DetachVolume", in: `{"VolumeId":"vol-0123456789abcdef0"}`, code: "InvalidVolume.NotFound"},
		{action: "DetachVolume", raw: map[string]string{"InstanceId": first}, code: "MissingParameter"},

		{action: "DescribeVolumesModifications", in: `{"VolumeIds":["${vol}"]}`, code: "InvalidVolumeModification.NotFound"},
		{action: "DescribeVolumesModifications", in: `{"VolumeIds":["vol-0123456789abcdef0"]}`, code: "InvalidVolume.NotFound"},
		{action: "ModifyVolume", in: `{"VolumeId":"${vol}","Size":8}`, want: map[string]string{
			"VolumeModification.ModificationState": "modifying", "VolumeModification.TargetSize": "8", "VolumeModification.OriginalSize": "4"}},
		{action: "DescribeVolumesModifications", in: `{"VolumeIds":["${vol}"]}`, want: map[string]string{"VolumesModifications.0.ModificationState": "completed"}},
		{action: "DescribeVolumes", in: `{"VolumeIds":["${vol}"]}`, want: map[string]string{"Volumes.0.Size": "8"}},
		{action: "ModifyVolume", in: `{"VolumeId":"${vol}","Size":2}`, code: "InvalidParameterValue"},
		{action: "ModifyVolume", in: `{"VolumeId":"${vol}"}`, code: "MissingParameter"},
		{action: "ModifyVolume", in: `{"VolumeId":"vol-0123456789abcdef0","Size":2}`, code: "InvalidVolume.NotFound"},

		{action: "CreateTags", in: `{"Resources":["${vol}"],"Tags":[{"Key":"a","Value":"1"}]}`},
		{
			action: "DescribeTags",
			in:     `{"Filters":[{"Name":"resource-id","Values":["${vol}"]}]}`,
			want:   map[string]string{"Tags.#": "2", "Tags.0.ResourceType": "volume"},
		},
		{action: "CreateTags", in: `{"Resources":["vol-0123456789abcdef0"],"Tags":[{"Key":"a","Value":"1"}]}`, code: "InvalidVolume.NotFound"},
		{action: "DeleteTags", in: `{"Resources":["vol-0123456789abcdef0"]}`, code: "InvalidVolume.NotFound"},

		{action: "DescribeInstanceTypes", in: `{"InstanceTypes":["m5.large"]}`, want: map[string]string{"InstanceTypes.0.EbsInfo.NvmeSupport": "required"}},
		{action: "DescribeInstanceTypes", in: `{"InstanceTypes":["x9.huge"]}`, code: "InvalidInstanceType"},

		{action: "DeleteVolume", in: `{"VolumeId":"${vol}"}`},
		{action: "DeleteVolume", in: `{"VolumeId":"${vol}"}`, code: "InvalidVolume.NotFound"},
		{action: "DeleteVolume", raw: map[string]string{}, code: "MissingParameter"},

		// What hangs on an instance that ends is free again.
		{action: "AttachVolume", in: `{"VolumeId":"${other}","InstanceId":"${third}","Device":"/dev/xvdaa"}`},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "terminated") }},
		{action: "DescribeVolumes", in: `{"VolumeIds":["${other}"]}`, want: map[string]string{"Volumes.0.State": "available"}},
		{lab: func(s *awssim.Server) error { return s.SetInstanceState(third, "running") }},
		{action: "DeleteVolume", in: `{"VolumeId":"${other}"}`},
	}
}
